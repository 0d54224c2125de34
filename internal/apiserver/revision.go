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
	n, err := strconv.ParseUint(rv, 10, 63)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid resource version: " + field.Invalid(field.NewPath("resourceVersion"), rv, err.Error()).Error())
	}
	return int64(n), nil
}

func formatRevision(rv int64) string { return strconv.FormatInt(rv, 10) }
