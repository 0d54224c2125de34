package metricsserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/yaml"
)

const (
	typeJSON  = runtime.ContentTypeJSON
	typeYAML  = runtime.ContentTypeYAML
	typeProto = runtime.ContentTypeProtobuf
)

// accepted is the first clause of an Accept header that can be served.
func accepted(header string) (medium, as string, ok bool) {
	if strings.TrimSpace(header) == "" {
		return typeJSON, "", true
	}
	for clause := range strings.SplitSeq(header, ",") {
		mediaType, params, _ := strings.Cut(clause, ";")
		switch strings.TrimSpace(mediaType) {
		case typeJSON, "*/*", "application/*":
			medium = typeJSON
		case typeYAML:
			medium = typeYAML
		case typeProto:
			medium = typeProto
		default:
			continue
		}
		as, known := "", true
		for param := range strings.SplitSeq(params, ";") {
			switch key, value, _ := strings.Cut(strings.TrimSpace(param), "="); {
			case key == "as":
				as = value
			case key == "v" && value != "v1", key == "g" && value != "meta.k8s.io":
				known = false
			}
		}
		switch {
		case as == "":
			return medium, "", true
		case known && (as == "Table" && medium != typeProto || as == "PartialObjectMetadata" || as == "PartialObjectMetadataList"):
			return medium, as, true
		}
	}
	return "", "", false
}

// write answers with an object, in the form that the client wants.
func write(w http.ResponseWriter, r *http.Request, obj runtime.Object) error {
	medium, as, ok := accepted(r.Header.Get("Accept"))
	if !ok {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable,
			Reason: metav1.StatusReasonNotAcceptable, Message: "only the following media types are accepted: " + strings.Join([]string{typeJSON, typeYAML, typeProto}, ", ")}}
	}
	switch as {
	case "Table":
		t, err := table(obj, r.URL.Query().Get("includeObject"))
		if err != nil {
			return err
		}
		obj = t
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		obj = metadata(obj)
	}
	var data []byte
	var err error
	if medium == typeProto {
		var b bytes.Buffer
		err = protobuf.NewSerializer(nil, nil).Encode(obj, &b)
		data = b.Bytes()
	} else if data, err = json.Marshal(obj); err == nil && medium == typeYAML {
		data, err = yaml.JSONToYAML(data)
	} else {
		data = append(data, '\n')
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	w.Header().Set("Content-Type", medium)
	w.Header().Set("Cache-Control", "no-cache, private")
	_, _ = w.Write(data)
	return nil
}

// fail answers with a Status.
func fail(w http.ResponseWriter, err error) {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	data, err := json.Marshal(&status)
	if err != nil {
		http.Error(w, status.Message, int(status.Code))
		return
	}
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(append(data, '\n'))
}

// row is an object in all the forms that a row of a table may have.
type row struct {
	meta   metav1.ObjectMeta
	usage  corev1.ResourceList
	window metav1.Duration
	object runtime.Object
}

func rows(obj runtime.Object) (out []row, list bool) {
	node := func(m *metricsv1beta1.NodeMetrics) {
		out = append(out, row{m.ObjectMeta, m.Usage, m.Window, m})
	}
	pod := func(m *metricsv1beta1.PodMetrics) {
		sum := corev1.ResourceList{}
		for _, c := range m.Containers {
			for name, q := range c.Usage {
				all := sum[name]
				all.Add(q)
				sum[name] = all
			}
		}
		out = append(out, row{m.ObjectMeta, sum, m.Window, m})
	}
	switch o := obj.(type) {
	case *metricsv1beta1.NodeMetrics:
		node(o)
	case *metricsv1beta1.PodMetrics:
		pod(o)
	case *metricsv1beta1.NodeMetricsList:
		for i := range o.Items {
			node(&o.Items[i])
		}
		list = true
	case *metricsv1beta1.PodMetricsList:
		for i := range o.Items {
			pod(&o.Items[i])
		}
		list = true
	}
	return out, list
}

// table has a column for each resource.
func table(obj runtime.Object, include string) (*metav1.Table, error) {
	all, _ := rows(obj)
	names := []string{string(corev1.ResourceCPU), string(corev1.ResourceMemory)}
	sort.Strings(names)
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, Rows: []metav1.TableRow{}}
	column := func(name, format string) {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string", Format: format})
	}
	column("Name", "name")
	for _, name := range names {
		column(name, "quantity")
	}
	column("Window", "duration")
	for _, r := range all {
		cells := []any{r.meta.Name}
		for _, name := range names {
			q := r.usage[corev1.ResourceName(name)]
			cells = append(cells, q.String())
		}
		cells = append(cells, r.window.Duration.String())
		out := metav1.TableRow{Cells: cells}
		switch metav1.IncludeObjectPolicy(include) {
		case "", metav1.IncludeMetadata:
			out.Object.Object = &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: r.meta}
		case metav1.IncludeObject:
			out.Object.Object = r.object
		case metav1.IncludeNone:
		default:
			return nil, apierrors.NewBadRequest("unrecognized includeObject value: \"" + include + "\"")
		}
		t.Rows = append(t.Rows, out)
	}
	return t, nil
}

func metadata(obj runtime.Object) runtime.Object {
	all, list := rows(obj)
	items := []metav1.PartialObjectMetadata{}
	for _, r := range all {
		items = append(items, metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: r.meta})
	}
	if !list {
		return &items[0]
	}
	return &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, Items: items}
}
