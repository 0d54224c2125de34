package crd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/setpoint-project/setpoint/internal/apiserver/reach"
)

// webhook converts objects by asking somebody else.
// https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion
type webhook struct {
	name   string // of the definition
	url    string
	review string // version of the ConversionReview
	http   *http.Client
}

// A conversion stands in the way of a request, which has a minute in all.
const webhookTimeout = 30 * time.Second

// maxReview bounds an answer: an object may have 1.5 MiB.
const maxReview = 16 << 20

// newWebhook is the converter of a definition, nil when its versions differ by
// name alone.
func newWebhook(crd *apiextensionsv1.CustomResourceDefinition, find *reach.Resolver) (converter, error) {
	c := crd.Spec.Conversion
	if c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return nil, nil
	}
	cfg := c.Webhook.ClientConfig
	w := &webhook{name: crd.Name}
	for _, v := range c.Webhook.ConversionReviewVersions {
		if v == "v1" || v == "v1beta1" {
			w.review = "apiextensions.k8s.io/" + v
			break
		}
	}
	if w.review == "" {
		return nil, errors.New("the webhook takes no version of ConversionReview that the server speaks")
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if bundle := bytes.TrimSpace(cfg.CABundle); len(bundle) > 0 {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, errors.New("the webhook's caBundle holds no certificate")
		}
	}
	transport := &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, Proxy: http.ProxyFromEnvironment, DialContext: find.Dial}
	switch {
	case cfg.URL != nil:
		w.url = *cfg.URL
	case cfg.Service != nil:
		s := cfg.Service
		host, port := s.Name+"."+s.Namespace+".svc", int32(443)
		if s.Port != nil {
			port = *s.Port
		}
		w.url = "https://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
		if s.Path != nil {
			w.url += *s.Path
		}
		secure.ServerName = host
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return find.DialService(ctx, network, s.Namespace, s.Name, port)
		}
	default:
		return nil, errors.New("the webhook has neither url nor service")
	}
	w.http = &http.Client{Transport: transport, Timeout: webhookTimeout}
	return w, nil
}

func (w *webhook) convert(o *Object, to *version) (*Object, error) {
	out, err := w.ask(o, to)
	if err != nil {
		return nil, fmt.Errorf("conversion webhook for %v failed: %w", o.GroupVersionKind(), err)
	}
	return out, nil
}

func (w *webhook) ask(o *Object, to *version) (*Object, error) {
	raw, err := o.EncodeJSON()
	if err != nil {
		return nil, err
	}
	id := uuid.NewUUID()
	review := apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{Kind: "ConversionReview", APIVersion: w.review},
		Request: &apiextensionsv1.ConversionRequest{
			UID: id, DesiredAPIVersion: to.gvk.GroupVersion().String(), Objects: []runtime.RawExtension{{Raw: raw}},
		},
	}
	body, err := json.Marshal(&review)
	if err != nil {
		return nil, err
	}
	answer, err := w.post(body)
	if err != nil {
		return nil, err
	}
	strict := w.review == "apiextensions.k8s.io/v1" // v1beta1 did not ask for as much
	switch r := answer.Response; {
	case strict && (answer.Kind != "ConversionReview" || answer.APIVersion != w.review):
		return nil, fmt.Errorf("expected webhook response of %s, Kind=ConversionReview, got %s, Kind=%s", w.review, answer.APIVersion, answer.Kind)
	case r == nil:
		return nil, errors.New("no response provided")
	case strict && r.UID != id:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", id, r.UID)
	case r.Result.Status != metav1.StatusSuccess && r.Result.Message != "":
		return nil, errors.New(r.Result.Message)
	case r.Result.Status != metav1.StatusSuccess:
		return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", r.Result.Status)
	case len(r.ConvertedObjects) != 1:
		return nil, fmt.Errorf("returned %d objects, expected 1", len(r.ConvertedObjects))
	}
	return accepted(o, answer.Response.ConvertedObjects[0].Raw, to)
}

func (w *webhook) post(body []byte) (*apiextensionsv1.ConversionReview, error) {
	resp, err := w.http.Post(w.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReview))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 206 {
		return nil, fmt.Errorf("the server answered %s: %s", resp.Status, data[:min(len(data), 512)])
	}
	review := &apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(data, review); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return review, nil
}

// accepted reads what a webhook made of an object. Of the metadata it may
// change labels and annotations only.
func accepted(o *Object, raw []byte, to *version) (*Object, error) {
	out := &Object{}
	if _, err := out.read(raw, false); err != nil {
		return nil, fmt.Errorf("returned invalid converted object: %w", err)
	}
	switch got := out.GroupVersionKind(); {
	case got.GroupVersion() != to.gvk.GroupVersion():
		return nil, fmt.Errorf("returned invalid converted object: invalid groupVersion (expected %v, received %v)", to.gvk.GroupVersion(), got.GroupVersion())
	case got.Kind != to.gvk.Kind:
		return nil, fmt.Errorf("returned invalid converted object: invalid kind (expected %v, received %v)", to.gvk.Kind, got.Kind)
	case out.Name != o.Name:
		return nil, fmt.Errorf("returned invalid converted object: must have the same name: %v != %v", o.Name, out.Name)
	case out.Namespace != o.Namespace:
		return nil, fmt.Errorf("returned invalid converted object: must have the same namespace: %v != %v", o.Namespace, out.Namespace)
	case out.UID != o.UID:
		return nil, fmt.Errorf("returned invalid converted object: must have the same UID: %v != %v", o.UID, out.UID)
	}
	labels, annotations := out.Labels, out.Annotations
	out.ObjectMeta = *o.ObjectMeta.DeepCopy()
	out.Labels, out.Annotations = labels, annotations
	return out, nil
}
