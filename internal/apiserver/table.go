package apiserver

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// nameColumns are those of a kind that names none.
var nameColumns = []kinds.Column{
	{TableColumnDefinition: metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		Cell: func(obj kinds.Object) any { return obj.GetName() }},
	{TableColumnDefinition: metav1.TableColumnDefinition{Name: "Created At", Type: "date",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
		Cell: func(obj kinds.Object) any { return obj.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z") }},
}

func (sv *served) columns() []kinds.Column {
	switch {
	case len(sv.version.Columns) > 0:
		return sv.version.Columns
	case len(sv.kind.Columns) > 0:
		return sv.kind.Columns
	}
	return nameColumns
}

// cells is the row of an object.
func (sv *served) cells(obj kinds.Object) ([]any, error) {
	cols := sv.columns()
	if len(sv.version.Columns) > 0 {
		var err error
		if obj, err = sv.fromHub(obj); err != nil {
			return nil, err
		}
	}
	cells := make([]any, len(cols))
	for i := range cols {
		cells[i] = cols[i].Cell(obj)
	}
	return cells, nil
}

func (x *exchange) columns() []metav1.TableColumnDefinition {
	cols := x.call.sv.columns()
	out := make([]metav1.TableColumnDefinition, len(cols))
	for i, c := range cols {
		out[i] = c.TableColumnDefinition
	}
	return out
}

// includeObject says what of each object goes into its row.
func (x *exchange) includeObject() (metav1.IncludeObjectPolicy, error) {
	switch p := metav1.IncludeObjectPolicy(x.query.get("includeObject")); p {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return p, nil
	default:
		return "", apierrors.NewBadRequest("unrecognized includeObject value: \"" + string(p) + "\"")
	}
}

// table turns objects into rows.
func (x *exchange) table(entries []*entry, meta metav1.ListMeta, columns bool) (*metav1.Table, error) {
	include, err := x.includeObject()
	if err != nil {
		return nil, err
	}
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}, ListMeta: meta}
	if columns {
		t.ColumnDefinitions = x.columns()
	}
	t.Rows = make([]metav1.TableRow, 0, len(entries))
	for _, e := range entries {
		var row metav1.TableRow
		if row.Cells, err = x.call.sv.cells(e.obj); err != nil {
			return nil, err
		}
		if row.Object, err = x.rowObject(e, include); err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func (x *exchange) rowObject(e *entry, include metav1.IncludeObjectPolicy) (runtime.RawExtension, error) {
	switch include {
	case metav1.IncludeNone:
		return runtime.RawExtension{}, nil
	case metav1.IncludeObject:
		data, err := e.encode(x.call.sv, mediumJSON, formObject)
		return runtime.RawExtension{Raw: data}, err
	}
	data, err := marshalJSON(partialMetadata(e.obj))
	return runtime.RawExtension{Raw: data}, err
}

func (x *exchange) bookmarkRow(obj kinds.Object) (metav1.TableRow, error) {
	cells := make([]any, len(x.call.sv.columns()))
	data, err := marshalJSON(partialMetadata(obj))
	return metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Raw: data}}, err
}

func (x *exchange) writeTable(p *page) error {
	entries := make([]*entry, len(p.records))
	for i, rec := range p.records {
		var err error
		if entries[i], err = x.s.entryOf(x.call.sv.resource, rec); err != nil {
			return err
		}
	}
	return x.sendTable(http.StatusOK, entries, p.meta())
}

func (x *exchange) answerTable(a answer) error {
	return x.sendTable(a.code, []*entry{a.entry}, metav1.ListMeta{ResourceVersion: a.entry.obj.GetResourceVersion()})
}

func (x *exchange) sendTable(code int, entries []*entry, meta metav1.ListMeta) error {
	t, err := x.table(entries, meta, true)
	if err != nil {
		return err
	}
	if strings.EqualFold(x.query.get("noHeaders"), "true") {
		t.ColumnDefinitions = nil
	}
	data, err := marshalJSON(t)
	if err != nil {
		return err
	}
	return x.present(code, data)
}
