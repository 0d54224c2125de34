package env

import "strings"

// Expand replaces $(NAME) by its value in the first of the maps that has it.
// $$ is a dollar, so $$(NAME) is the text $(NAME); a reference to what is not
// there stays as it is. See
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/.
func Expand(in string, values ...map[string]string) string {
	if !strings.Contains(in, "$") {
		return in
	}
	var out strings.Builder
	for {
		i := strings.IndexByte(in, '$')
		if i < 0 || i+1 == len(in) {
			out.WriteString(in)
			return out.String()
		}
		out.WriteString(in[:i])
		in = in[i:]
		switch in[1] {
		case '$':
			out.WriteByte('$')
			in = in[2:]
		case '(':
			end := strings.IndexByte(in, ')')
			if end < 0 {
				out.WriteString("$(")
				in = in[2:]
				continue
			}
			out.WriteString(lookup(in[2:end], in[:end+1], values))
			in = in[end+1:]
		default:
			out.WriteString(in[:2])
			in = in[2:]
		}
	}
}

func lookup(name, otherwise string, values []map[string]string) string {
	for _, m := range values {
		if v, ok := m[name]; ok {
			return v
		}
	}
	return otherwise
}
