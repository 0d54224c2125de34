package check

import (
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Segment wants a value that can be a segment of a URL's path.
func (c *Errors) Segment(path *field.Path, name, value string) {
	c.Text(path, name, value, pathvalidation.IsValidPathSegmentName(value))
}

// NamedSegment is Required, with detail, and Segment in one.
func (c *Errors) NamedSegment(path *field.Path, name, value, detail string) {
	if value == "" {
		c.Required(path, name, detail)
		return
	}
	c.Segment(path, name, value)
}

// Selector wants a valid label selector, or none.
func (c *Errors) Selector(path *field.Path, name string, s *metav1.LabelSelector) {
	if s != nil {
		c.Add(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at(path, name)))
	}
}
