package core

import (
	"bytes"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func configMap() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "configmaps"}, Kind: "ConfigMap", Singular: "configmap",
		ShortNames: []string{"cm"}, Namespaced: true,
		StoragePrefix:            "/registry/configmaps/",
		Versions:                 []kinds.Version{strategy.Version[corev1.ConfigMap, corev1.ConfigMapList](v1, nil)},
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateConfigMap),
		ValidateUpdate:           strategy.ValidateUpdate(validateConfigMapUpdate),
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Data", "string", corev1.ConfigMap{}.SwaggerDoc()["data"], func(cm *corev1.ConfigMap) any { return int64(len(cm.Data) + len(cm.BinaryData)) }),
			strategy.Age(),
		},
	}
}

func validateConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	var c check.Errors
	size := 0
	for key, value := range cm.Data {
		if bad := validation.IsConfigMapKey(key); len(bad) > 0 {
			c.Text(field.NewPath("data").Key(key), "", key, bad)
		}
		if _, both := cm.BinaryData[key]; both {
			c.Invalid(field.NewPath("data").Key(key), "", key, "duplicate of key present in binaryData")
		}
		size += len(value)
	}
	for key, value := range cm.BinaryData {
		if bad := validation.IsConfigMapKey(key); len(bad) > 0 {
			c.Text(field.NewPath("binaryData").Key(key), "", key, bad)
		}
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		c.TooLong(field.NewPath(""), "", corev1.MaxSecretSize)
	}
	return c.List
}

const nowImmutable = "field is immutable when `immutable` is set"

func isTrue(b *bool) bool { return b != nil && *b }

func validateConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	var c check.Errors
	if isTrue(old.Immutable) {
		if !isTrue(cm.Immutable) {
			c.Forbidden(field.NewPath("immutable"), "", nowImmutable)
		}
		if !maps.Equal(cm.Data, old.Data) {
			c.Forbidden(field.NewPath("data"), "", nowImmutable)
		}
		if !maps.EqualFunc(cm.BinaryData, old.BinaryData, bytes.Equal) {
			c.Forbidden(field.NewPath("binaryData"), "", nowImmutable)
		}
	}
	c.Add(validateConfigMap(cm))
	return c.List
}
