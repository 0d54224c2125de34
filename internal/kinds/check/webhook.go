package check

import (
	"fmt"
	"net/url"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WebhookURL checks the address of a webhook that is named by URL.
func WebhookURL(path *field.Path, text string) (errs field.ErrorList) {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	wrong := func(value, detail string) { errs = append(errs, field.Invalid(path, value, detail)) }
	if u.Scheme != "https" {
		wrong(u.Scheme, "'https' is the only allowed URL scheme"+form)
	}
	if u.Host == "" {
		wrong(u.Host, "host must be specified"+form)
	}
	if u.User != nil {
		wrong(u.User.String(), "user information is not permitted in the URL")
	}
	if u.Fragment != "" {
		wrong(u.Fragment, "fragments are not permitted in the URL")
	}
	if u.RawQuery != "" {
		wrong(u.RawQuery, "query parameters are not permitted in the URL")
	}
	return errs
}

// WebhookService checks the address of a webhook that is named by its Service.
// urlPath and port are nil when they are not given.
func WebhookService(path *field.Path, namespace, name string, urlPath *string, port *int32) (errs field.ErrorList) {
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	if port != nil {
		if wrong := utilvalidation.IsValidPortNum(int(*port)); wrong != nil {
			errs = append(errs, field.Invalid(path.Child("port"), *port, "port is not valid: "+strings.Join(wrong, ", ")))
		}
	}
	if urlPath == nil || *urlPath == "" || *urlPath == "/" {
		return errs
	}
	at, text := path.Child("path"), *urlPath
	if !strings.HasPrefix(text, "/") {
		errs = append(errs, field.Invalid(at, text, "must start with a '/'"))
	}
	// The first character counts for the slash even where it is another one.
	for i, step := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if step == "" {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, wrong := range utilvalidation.IsDNS1123Subdomain(step) {
			errs = append(errs, field.Invalid(at, text, fmt.Sprintf("segment[%d]: %v", i, wrong)))
		}
	}
	return errs
}
