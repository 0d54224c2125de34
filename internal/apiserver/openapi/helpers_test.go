package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	kubectlopenapi "k8s.io/kubectl/pkg/util/openapi"
)

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:4])
}

func unmarshalProto(raw []byte, into proto.Message) error { return proto.Unmarshal(raw, into) }

// sorted is a document as text with a fixed order, one definition or path a
// line.
func sorted(t *testing.T, d *openapi_v2.Document) string {
	t.Helper()
	slices.SortFunc(d.Definitions.AdditionalProperties, func(a, b *openapi_v2.NamedSchema) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Paths.Path, func(a, b *openapi_v2.NamedPathItem) int { return strings.Compare(a.Name, b.Name) })
	var out strings.Builder
	for _, s := range d.Definitions.AdditionalProperties {
		out.WriteString(schemaText(s.Name, s.Value) + "\n")
	}
	for _, p := range d.Paths.Path {
		out.WriteString(p.Name)
		for _, op := range []*openapi_v2.Operation{p.Value.Get, p.Value.Put, p.Value.Post, p.Value.Delete, p.Value.Patch} {
			if op == nil {
				continue
			}
			out.WriteString(" " + op.OperationId + extensions(op.VendorExtension) + strings.Join(op.Consumes, ","))
			for _, param := range op.Parameters {
				out.WriteString(" " + compact(param.String()))
			}
			for _, code := range op.Responses.ResponseCode {
				out.WriteString(" " + code.Name + schemaText("", code.Value.GetResponse().GetSchema().GetSchema()))
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// compact undoes the random spaces that the protobuf library writes.
func compact(s string) string { return strings.Join(strings.Fields(s), " ") }

func schemaText(name string, s *openapi_v2.Schema) string {
	if s == nil {
		return name + " none"
	}
	text := name + " " + s.XRef + s.Format + strings.Join(s.GetType().GetValue(), ",") + strings.Join(s.Required, ",") + s.Description + extensions(s.VendorExtension)
	if a := s.GetAdditionalProperties().GetSchema(); a != nil {
		text += " map of" + schemaText("", a)
	}
	for _, i := range s.GetItems().GetSchema() {
		text += " list of" + schemaText("", i)
	}
	props := slices.Clone(s.GetProperties().GetAdditionalProperties())
	slices.SortFunc(props, func(a, b *openapi_v2.NamedSchema) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range props {
		text += " {" + schemaText(p.Name, p.Value) + "}"
	}
	return text
}

// extensions lists names only: the library reads values as YAML in one of
// several spellings.
func extensions(list []*openapi_v2.NamedAny) string {
	var names []string
	for _, x := range list {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	return " [" + strings.Join(names, ",") + "] "
}

// getter gives kubectl's validation what its factory would.
type getter struct {
	parser *kubectlopenapi.CachedOpenAPIParser
}

func (g getter) OpenAPISchema() (kubectlopenapi.Resources, error) { return g.parser.Parse() }
