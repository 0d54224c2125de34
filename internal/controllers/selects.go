package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-project/setpoint/internal/client"
)

// Selects tells whether a selector matches an object's labels. A selector that
// is empty or wrong matches nothing: nobody may claim a whole namespace.
func Selects(selector *metav1.LabelSelector, obj client.Object) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(obj.GetLabels()))
}
