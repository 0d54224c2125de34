package strategy

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/setpoint-project/setpoint/internal/kinds"
)

// describe has the descriptions of metadata's fields, which upstream's tables
// repeat.
func describe(property string) string { return metav1.ObjectMeta{}.SwaggerDoc()[property] }

// Name is the first column of every table.
func Name() kinds.Column {
	return kinds.Column{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: describe("name")},
		Cell:                  func(obj kinds.Object) any { return obj.GetName() },
	}
}

// Age is the time since an object was created.
func Age() kinds.Column {
	return kinds.Column{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: describe("creationTimestamp")},
		Cell:                  func(obj kinds.Object) any { return Since(obj.GetCreationTimestamp()) },
	}
}

// NameAge are the columns of a kind that has nothing more to show.
func NameAge() []kinds.Column { return []kinds.Column{Name(), Age()} }

// Column shows a property of *P. doc is its description.
func Column[P kinds.Object](name, typ, doc string, cell func(P) any) kinds.Column {
	return kinds.Column{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: typ, Description: doc},
		Cell:                  func(obj kinds.Object) any { return cell(obj.(P)) },
	}
}

// Wide is a Column that only `kubectl get -o wide` shows.
func Wide[P kinds.Object](name, typ, doc string, cell func(P) any) kinds.Column {
	c := Column(name, typ, doc, cell)
	c.Priority = 1
	return c
}

// Since is the age of t as kubectl shows it, "<unknown>" for no time at all.
func Since(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

// CreatedAt is the time of creation, which some kinds show in place of an age.
func CreatedAt() kinds.Column {
	return kinds.Column{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: "Created At", Type: "date", Description: describe("creationTimestamp")},
		Cell: func(obj kinds.Object) any {
			return obj.GetCreationTimestamp().UTC().Format(time.RFC3339)
		},
	}
}
