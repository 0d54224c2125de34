package envtest

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// errHelp says that the usage was asked for and printed.
var errHelp = errors.New("help")

// parse reads args into fs. Whoever asks for help gets fs's flags on out and
// errHelp: envtest looks there for which flags it may pass. A flag that fs does
// not have is told on errOut, unless known lists it as one that changes nothing.
func parse(fs *pflag.FlagSet, known []string, args []string, out, errOut io.Writer) error {
	fs.SetOutput(io.Discard)
	fs.SortFlags = true
	passedOver := map[string]bool{}
	for _, name := range known {
		passedOver[name] = true
	}
	var ours []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, isFlag := strings.CutPrefix(arg, "-")
		if !isFlag {
			fmt.Fprintf(errOut, "%s: warning: argument %q has no effect\n", fs.Name(), arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if name == "help" || name == "h" {
			fmt.Fprintf(out, "Usage:\n  %s [flags]\n\nFlags:\n%s", fs.Name(), fs.FlagUsages())
			return errHelp
		}
		flag := fs.Lookup(name)
		if flag != nil && !hasValue && flag.NoOptDefVal != "" {
			value, hasValue = flag.NoOptDefVal, true
		}
		if !hasValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			value, hasValue = args[i], true
		}
		switch {
		case flag != nil && !hasValue:
			return fmt.Errorf("--%s needs a value", name)
		case flag != nil:
			ours = append(ours, "--"+name+"="+value)
		case !passedOver[name]:
			fmt.Fprintf(errOut, "%s: warning: --%s has no effect in setpoint\n", fs.Name(), name)
		}
	}
	return fs.Parse(ours)
}
