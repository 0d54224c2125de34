package apiserver

import (
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parseRevision reads a resourceVersion; "" and "0" are 0.
func parseRevision(rv string) (int64, error) {
	if rv == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(rv, 10, 64)
	if err != nil || n < 0 {
		return 0, apierrors.NewBadRequest(field.Invalid(field.NewPath("resourceVersion"), rv, strconv.ErrSyntax.Error()).Error())
	}
	return n, nil
}

func formatRevision(rv int64) string { return strconv.FormatInt(rv, 10) }
