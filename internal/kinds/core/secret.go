package core

import (
	"bytes"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-project/setpoint/internal/kinds"
	"github.com/setpoint-project/setpoint/internal/kinds/check"
	"github.com/setpoint-project/setpoint/internal/kinds/strategy"
)

func secret() *kinds.Kind {
	return &kinds.Kind{
		Resource: schema.GroupResource{Group: v1.Group, Resource: "secrets"}, Kind: "Secret", Singular: "secret",
		Namespaced:               true,
		StoragePrefix:            "/registry/secrets/",
		Versions:                 []kinds.Version{strategy.Version[corev1.Secret, corev1.SecretList](v1, defaultSecret)},
		AllowUnconditionalUpdate: true,
		Validate:                 strategy.Validate(validateSecret),
		ValidateUpdate:           strategy.ValidateUpdate(validateSecretUpdate),
		SelectableFields:         strategy.Fields(func(s *corev1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} }),
		FieldNames:               []string{"type"},
		Columns: []kinds.Column{
			strategy.Name(),
			strategy.Column("Type", "string", corev1.Secret{}.SwaggerDoc()["type"], func(s *corev1.Secret) any { return string(s.Type) }),
			strategy.Column("Data", "string", corev1.Secret{}.SwaggerDoc()["data"], func(s *corev1.Secret) any { return int64(len(s.Data)) }),
			strategy.Age(),
		},
	}
}

// defaultSecret also moves stringData, which can only be written, to data.
func defaultSecret(s *corev1.Secret) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	if len(s.StringData) > 0 {
		if s.Data == nil {
			s.Data = make(map[string][]byte, len(s.StringData))
		}
		for key, value := range s.StringData {
			s.Data[key] = []byte(value)
		}
	}
	s.StringData = nil
}

func validateSecret(s *corev1.Secret) field.ErrorList {
	var c check.Errors
	size := 0
	for key, value := range s.Data {
		if bad := validation.IsConfigMapKey(key); len(bad) > 0 {
			c.Text(field.NewPath("data").Key(key), "", key, bad)
		}
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		c.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize)
	}
	validateSecretType(&c, s)
	return c.List
}

// validateSecretType wants the keys that readers of a secret of this type
// count on.
func validateSecretType(c *check.Errors, s *corev1.Secret) {
	data := func(key string) *field.Path { return field.NewPath("data").Key(key) }
	need := func(key string) bool {
		if _, ok := s.Data[key]; !ok {
			c.Required(data(key), "", "")
			return false
		}
		return true
	}
	needJSON := func(key string) {
		if !need(key) {
			return
		}
		if err := json.Unmarshal(s.Data[key], &map[string]any{}); err != nil {
			c.Invalid(data(key), "", "<secret contents redacted>", err.Error())
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			c.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), "", "")
		}
	case corev1.SecretTypeDockercfg:
		needJSON(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		needJSON(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		if _, password := s.Data[corev1.BasicAuthPasswordKey]; !user && !password {
			need(corev1.BasicAuthUsernameKey)
			need(corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			c.Required(data(corev1.SSHAuthPrivateKey), "", "")
		}
	case corev1.SecretTypeTLS:
		need(corev1.TLSCertKey)
		need(corev1.TLSPrivateKeyKey)
	}
}

func validateSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	var c check.Errors
	if s.Type != old.Type {
		c.Immutable(field.NewPath("type"), "", s.Type)
	}
	if isTrue(old.Immutable) {
		if !isTrue(s.Immutable) {
			c.Forbidden(field.NewPath("immutable"), "", nowImmutable)
		}
		if !maps.EqualFunc(s.Data, old.Data, bytes.Equal) {
			c.Forbidden(field.NewPath("data"), "", nowImmutable)
		}
	}
	c.Add(validateSecret(s))
	return c.List
}
