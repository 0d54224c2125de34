package apiserver

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// medium is a media type that objects are written in.
type medium uint8

const (
	mediumJSON medium = iota
	mediumProto
	mediumYAML
	mediumCBOR
)

const (
	typeJSON  = "application/json"
	typeProto = "application/vnd.kubernetes.protobuf"
	typeYAML  = "application/yaml"
)

func (m medium) contentType() string {
	return [...]string{typeJSON, typeProto, typeYAML, typeCBOR}[m]
}

var errNoProto = errors.New("object has no protobuf form")

// validation of fields that the type does not know.
type fieldValidation uint8

const (
	fieldsWarn fieldValidation = iota
	fieldsStrict
	fieldsIgnore
)

// encodeStored makes the bytes that are stored: without a resourceVersion,
// since that is the store's revision.
func (res *resource) encodeStored(obj kinds.Object) ([]byte, error) {
	rv := obj.GetResourceVersion()
	if rv != "" {
		obj.SetResourceVersion("")
		defer obj.SetResourceVersion(rv)
	}
	if res.hub.wire != nil {
		return res.hub.wire.encode(obj.(protoMessage))
	}
	return marshalObject(obj)
}

// marshalObject writes an object as JSON.
func marshalObject(obj runtime.Object) ([]byte, error) {
	if d, ok := obj.(kinds.Dynamic); ok {
		return d.EncodeJSON() // marshalling would go over its bytes once more
	}
	return json.Marshal(obj)
}

// decodeJSON reads an object from JSON. strict holds what a strict reading
// finds wrong.
func decodeJSON(data []byte, fv fieldValidation, obj runtime.Object) (strict []error, err error) {
	if d, ok := obj.(kinds.Dynamic); ok {
		return d.DecodeJSON(data, fv != fieldsIgnore)
	}
	if fv == fieldsIgnore {
		return nil, kjson.UnmarshalCaseSensitivePreserveInts(data, obj)
	}
	return kjson.UnmarshalStrict(data, obj)
}

// decodeStored makes the object that encodeStored was given.
func (res *resource) decodeStored(value []byte) (kinds.Object, error) {
	if res.kind.Decode != nil {
		obj, err := res.kind.Decode(value)
		if err == nil {
			obj.GetObjectKind().SetGroupVersionKind(res.hub.gvk)
		}
		return obj, err
	}
	obj := res.hub.version.New()
	if bytes.HasPrefix(value, protoMagic) {
		m, ok := obj.(protoMessage)
		if !ok {
			return nil, errNoProto
		}
		raw, ok := res.hub.wire.open(value)
		if !ok {
			var err error
			if _, raw, err = openEnvelope(value); err != nil {
				return nil, err
			}
		}
		if err := res.parts.Unmarshal(m, raw); err != nil {
			return nil, err
		}
	} else if err := json.Unmarshal(value, obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(res.hub.gvk)
	return obj, nil
}

// openEnvelope finds the type and the message in a protobuf envelope.
func openEnvelope(data []byte) (metav1.TypeMeta, []byte, error) {
	var unknown runtime.Unknown
	if !bytes.HasPrefix(data, protoMagic) {
		return metav1.TypeMeta{}, nil, errors.New("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
	}
	if err := unknown.Unmarshal(data[len(protoMagic):]); err != nil {
		return metav1.TypeMeta{}, nil, err
	}
	return metav1.TypeMeta{APIVersion: unknown.APIVersion, Kind: unknown.Kind}, unknown.Raw, nil
}

// encodeObject writes an object of any version, a list, a status or a table.
func encodeObject(obj runtime.Object, gvk schema.GroupVersionKind, m medium) ([]byte, error) {
	switch m {
	case mediumProto:
		pm, ok := obj.(protoMessage)
		if !ok {
			return nil, errNoProto
		}
		apiVersion, kind := gvk.ToAPIVersionAndKind()
		return newEnvelope(apiVersion, kind).encode(pm)
	case mediumYAML:
		data, err := marshalObject(obj)
		if err != nil {
			return nil, err
		}
		return yaml.JSONToYAML(data)
	case mediumCBOR:
		return encodeCBOR(obj)
	}
	return marshalObject(obj)
}

// decodeBody reads an object of version sv from a request body. strict holds
// what a strict reading finds wrong (unknown and duplicate fields).
func (sv *served) decodeBody(data []byte, m medium, fv fieldValidation) (obj kinds.Object, strict []error, err error) {
	return decodeInto(data, m, fv, sv.gvk, sv.version.New)
}

// decodeInto is decodeBody for any type.
func decodeInto(data []byte, m medium, fv fieldValidation, want schema.GroupVersionKind, newObject func() kinds.Object) (kinds.Object, []error, error) {
	obj := newObject()
	strict, err := decodeRuntime(data, m, fv, want, obj)
	if err != nil {
		return nil, nil, err
	}
	return obj, strict, nil
}

func decodeRuntime(data []byte, m medium, fv fieldValidation, want schema.GroupVersionKind, obj runtime.Object) (strict []error, err error) {
	var tm metav1.TypeMeta
	switch m {
	case mediumProto:
		pm, ok := obj.(protoMessage)
		if !ok {
			return nil, errUnsupportedMediaType(acceptedWithoutProto)
		}
		var raw []byte
		tm, raw, err = openEnvelope(data)
		if err != nil {
			return nil, unrecognized(want.Kind, err, data)
		}
		if err := checkType(&tm, want); err != nil {
			return nil, err
		}
		if err := pm.Unmarshal(raw); err != nil {
			return nil, cannotHandle(tm, want, err)
		}
	default:
		body := data
		switch m {
		case mediumCBOR:
			if body, err = cborToJSON(data); err != nil {
				return nil, unrecognized(want.Kind, err, data)
			}
		case mediumYAML:
			if body, strict, err = yamlToJSON(data, fv); err != nil {
				return nil, unrecognized(want.Kind, fmt.Errorf("couldn't get version/kind; json parse error: %w", err), data)
			}
		}
		more, err := decodeJSON(body, fv, obj)
		if err != nil {
			return nil, decodeError(err, body, data, want)
		}
		strict = append(strict, more...)
		tm.APIVersion, tm.Kind = obj.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		// Only of built-in kinds does upstream fill in what kind an object is.
		if _, builtIn := obj.(protoMessage); !builtIn && tm.Kind == "" {
			return nil, unrecognized(want.Kind, fmt.Errorf("Object 'Kind' is missing in '%s'", body), data)
		}
		if err := checkType(&tm, want); err != nil {
			return nil, err
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return strict, nil
}

// decodeError finds out whether the body is no JSON at all, of another type, or
// of the type with a wrong field: the answers differ.
func decodeError(err error, body, data []byte, want schema.GroupVersionKind) error {
	var tm metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &tm); err != nil {
		return unrecognized(want.Kind, fmt.Errorf("couldn't get version/kind; json parse error: %w", err), data)
	}
	if err := checkType(&tm, want); err != nil {
		return err
	}
	return cannotHandle(tm, want, err)
}

// checkType compares the type that a body names with the one that is due, and
// fills in what the body leaves out.
func checkType(tm *metav1.TypeMeta, want schema.GroupVersionKind) error {
	apiVersion, kind := want.ToAPIVersionAndKind()
	if tm.Kind == "" {
		tm.Kind = kind
	}
	if tm.APIVersion == "" {
		tm.APIVersion = apiVersion
	}
	if tm.Kind != kind {
		gvk := schema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind)
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: converting (%s.%s) to (%s.%s): unknown conversion",
			tm.Kind, gvk.Version, kind, gvk.Version, tm.Kind, want.Version, kind))
	}
	if tm.APIVersion != apiVersion {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", tm.APIVersion, apiVersion))
	}
	return nil
}

func cannotHandle(tm metav1.TypeMeta, want schema.GroupVersionKind, err error) error {
	gv, _ := schema.ParseGroupVersion(tm.APIVersion)
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", tm.Kind, gv.Version, want.Kind, err))
}

// unrecognized shows the first bytes of what could not be read, as Kubernetes
// does.
func unrecognized(kind string, err error, data []byte) error {
	shown := hex.EncodeToString(data[:min(len(data), 30)])
	if len(data) > 30 {
		shown += " ..."
	} else if len(data) == 0 {
		shown = "<empty>"
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", kind, err, shown))
}

// yamlToJSON converts, and tells of duplicate keys where that was asked for.
func yamlToJSON(data []byte, fv fieldValidation) ([]byte, []error, error) {
	out, err := yaml.YAMLToJSON(data)
	if err != nil || fv == fieldsIgnore {
		return out, nil, err
	}
	var strict []error
	if _, err := yaml.YAMLToJSONStrict(data); err != nil {
		strict = append(strict, err)
	}
	return out, strict, nil
}

func unmarshalJSON(data []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

func strictJSON(data []byte, into any) ([]error, error) {
	return kjson.UnmarshalStrict(data, into)
}
