package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	jsonType     = "application/json"
	yamlType     = "application/yaml"
	protobufType = "application/vnd.kubernetes.protobuf"
	// maxBody is upstream's limit for any request.
	maxBody = 3 << 20
)

var protobufMagic = []byte("k8s\x00")

// message is an object of k8s.io/api.
type message interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// read decodes the body of r, which must be of kind gvk or name none, into
// obj.
func read(w http.ResponseWriter, r *http.Request, gvk schema.GroupVersionKind, obj message) error {
	if _, ok := prefers(r.Header.Values("Accept")); !ok {
		return notAcceptable()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
		}
		return apierrors.NewBadRequest(err.Error())
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Header.Get("Content-Type") == "" {
		media, err = jsonType, nil
	}
	if err != nil {
		return unsupported(media)
	}
	switch media {
	case protobufType:
		return readProtobuf(body, gvk, obj)
	case yamlType:
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return apierrors.NewBadRequest("error converting YAML to JSON: " + err.Error())
		}
	case jsonType:
	default:
		return unsupported(media)
	}
	var meta metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &meta); err != nil {
		return apierrors.NewBadRequest("couldn't get version/kind; json parse error: " + err.Error())
	}
	if err := sameKind(meta.APIVersion, meta.Kind, gvk); err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, obj); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, gvk.Kind, err))
	}
	return nil
}

func readProtobuf(body []byte, gvk schema.GroupVersionKind, obj message) error {
	raw, ok := bytes.CutPrefix(body, protobufMagic)
	var unknown runtime.Unknown
	if !ok || unknown.Unmarshal(raw) != nil {
		return apierrors.NewBadRequest("the body is no protobuf message in Kubernetes' envelope")
	}
	if err := sameKind(unknown.APIVersion, unknown.Kind, gvk); err != nil {
		return err
	}
	if err := obj.Unmarshal(unknown.Raw); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func sameKind(apiVersion, kind string, want schema.GroupVersionKind) error {
	if apiVersion == "" && kind == "" {
		return nil
	}
	if got := schema.FromAPIVersionAndKind(apiVersion, kind); got != want {
		return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): got %s", want.Kind, got.String()))
	}
	return nil
}

func unsupported(media string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusUnsupportedMediaType,
		Reason:  metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s, %s, %s", jsonType, yamlType, protobufType),
		Details: &metav1.StatusDetails{Name: media},
	}}
}

func notAcceptable() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusNotAcceptable,
		Reason:  metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf("only the following media types are accepted: %s, %s, %s", jsonType, yamlType, protobufType),
	}}
}

// answer writes obj as the client likes it best.
func answer(w http.ResponseWriter, r *http.Request, code int, gvk schema.GroupVersionKind, obj message) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	media, _ := prefers(r.Header.Values("Accept"))
	var body []byte
	var err error
	switch media {
	case protobufType:
		if body, err = obj.Marshal(); err == nil {
			apiVersion, kind := gvk.ToAPIVersionAndKind()
			body, err = (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: body}).Marshal()
			body = append(bytes.Clone(protobufMagic), body...)
		}
	case yamlType:
		body, err = yaml.Marshal(obj)
	default:
		body, err = json.Marshal(obj)
		body = append(body, '\n')
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// prefers is the first type in Accept that we can write, JSON if there is no
// Accept. ok tells whether one of them will do: nothing here has the metadata
// of which tables are made, or that could be had alone.
func prefers(accept []string) (media string, ok bool) {
	list := strings.Join(accept, ",")
	if strings.TrimSpace(list) == "" {
		return jsonType, true
	}
	for clause := range strings.SplitSeq(list, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil || params["as"] != "" {
			continue
		}
		switch media {
		case protobufType, yamlType:
			return media, true
		case jsonType, "*/*", "application/*":
			return jsonType, true
		}
	}
	return jsonType, false
}

// refuse answers with the status that err is.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	answer(w, r, int(status.Code), schema.GroupVersionKind{Version: "v1", Kind: "Status"}, &status)
}
