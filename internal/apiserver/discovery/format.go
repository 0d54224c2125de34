package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const (
	jsonType     = "application/json"
	yamlType     = "application/yaml"
	protobufType = "application/vnd.kubernetes.protobuf"

	aggregatedGroup = "apidiscovery.k8s.io"
	aggregatedKind  = "APIGroupDiscoveryList"
)

// format is how a document is written; version is that of the aggregated list,
// "" for the legacy documents.
type format struct {
	media   string
	version string
}

func (f format) aggregated() bool { return f.version != "" }

func (f format) contentType() string {
	if f.aggregated() {
		return f.media + ";g=" + aggregatedGroup + ";v=" + f.version + ";as=" + aggregatedKind
	}
	return f.media
}

// negotiate chooses the first format that the client accepts and we have, in
// the client's order of preference. Aggregated lists exist at the two roots
// only.
func negotiate(headers []string, root bool) (format, bool) {
	type choice struct {
		format
		q float64
	}
	var choices []choice
	for _, clause := range strings.Split(strings.Join(headers, ","), ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		c := choice{q: 1}
		if q, ok := params["q"]; ok {
			if c.q, err = strconv.ParseFloat(q, 64); err != nil || c.q <= 0 {
				continue
			}
		}
		switch media {
		case "*/*", "application/*", jsonType:
			c.media = jsonType
		case yamlType, protobufType:
			c.media = media
		default:
			continue
		}
		if as := params["as"]; as != "" {
			v := params["v"]
			if !root || as != aggregatedKind || params["g"] != aggregatedGroup || (v != "v2" && v != "v2beta1") || media == yamlType {
				continue
			}
			c.version = v
		}
		choices = append(choices, c)
	}
	if len(choices) == 0 {
		// No header, or one of blanks, accepts everything.
		return format{media: jsonType}, strings.TrimSpace(strings.Join(headers, "")) == ""
	}
	slices.SortStableFunc(choices, func(a, b choice) int {
		switch {
		case a.q > b.q:
			return -1
		case a.q < b.q:
			return 1
		}
		return 0
	})
	return choices[0].format, true
}

// object is a document before it is written.
type object interface {
	GetObjectKind() schema.ObjectKind
	Marshal() ([]byte, error)
}

// encode never fails for the types of this package.
func (f format) encode(o object) []byte {
	if f.media == protobufType {
		raw, err := o.Marshal()
		if err != nil {
			panic(err)
		}
		gvk := o.GetObjectKind().GroupVersionKind()
		if gvk.Version == "" {
			gvk.Version = "v1"
		}
		unknown := runtime.Unknown{
			TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
			Raw:      raw,
		}
		body, err := unknown.Marshal()
		if err != nil {
			panic(err)
		}
		return append([]byte("k8s\x00"), body...)
	}
	body, err := json.Marshal(o)
	if err == nil && f.media == yamlType {
		body, err = yaml.JSONToYAML(body)
	} else {
		body = append(body, '\n')
	}
	if err != nil {
		panic(err)
	}
	return body
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`
}

func write(w http.ResponseWriter, r *http.Request, f format, d document) {
	h := w.Header()
	h.Set("Vary", "Accept")
	if d.etag != "" {
		h.Set("ETag", d.etag)
		h.Set("Cache-Control", "public")
		if r.Header.Get("If-None-Match") == d.etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	} else {
		h.Set("Cache-Control", "no-cache, private")
	}
	h.Set("Content-Type", f.contentType())
	h.Set("Content-Length", strconv.Itoa(len(d.body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(d.body)
	}
}

func notAcceptable(w http.ResponseWriter) {
	refuse(w, &metav1.Status{
		Message: "only the following media types are accepted: " + strings.Join([]string{jsonType, yamlType, protobufType}, ", "),
		Reason:  metav1.StatusReasonNotAcceptable,
		Code:    http.StatusNotAcceptable,
	})
}

func refuse(w http.ResponseWriter, status *metav1.Status) {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	status.Status = metav1.StatusFailure
	body, _ := json.Marshal(status)
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body)
}
