package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/setpoint-project/setpoint/internal/scheduler"
)

// readExtenders returns the extenders, and the resources that nodes are not
// filtered by because one looks after them.
func readExtenders(from []configv1.Extender) (extenders []scheduler.Extender, ignored []string, err error) {
	var managed []corev1.ResourceName
	binders := 0
	for i := range from {
		e, err := readExtender(&from[i])
		if err != nil {
			return nil, nil, fmt.Errorf("extenders[%d]: %w", i, err)
		}
		if e.Bind != "" {
			binders++
		}
		for j, r := range from[i].ManagedResources {
			switch wrong := validation.IsQualifiedName(r.Name); {
			case len(wrong) > 0:
				return nil, nil, fmt.Errorf("extenders[%d]: managedResources[%d]: name: %q: %s", i, j, r.Name, wrong[0])
			case !extended(r.Name):
				return nil, nil, fmt.Errorf("extenders[%d]: managedResources[%d]: name: %s is no extended resource", i, j, r.Name)
			case slices.Contains(managed, corev1.ResourceName(r.Name)):
				return nil, nil, fmt.Errorf("extenders[%d]: managedResources[%d]: name: %s is managed already", i, j, r.Name)
			}
			managed = append(managed, corev1.ResourceName(r.Name))
			if r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
		extenders = append(extenders, e)
	}
	if binders > 1 {
		return nil, nil, fmt.Errorf("extenders: %d have a bindVerb: only one may", binders)
	}
	return extenders, ignored, nil
}

// extended tells the names of extended resources from those of Kubernetes.
//
// https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
func extended(name string) bool {
	domain, _, ok := strings.Cut(name, "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		!strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) && len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

func readExtender(from *configv1.Extender) (scheduler.Extender, error) {
	e := scheduler.Extender{URL: strings.TrimRight(from.URLPrefix, "/"), Filter: from.FilterVerb, Prioritize: from.PrioritizeVerb, Preempt: from.PreemptVerb,
		Bind: from.BindVerb, Weight: from.Weight, Names: from.NodeCacheCapable, Ignorable: from.Ignorable, Timeout: from.HTTPTimeout.Duration}
	if e.Prioritize != "" && e.Weight <= 0 {
		return e, fmt.Errorf("weight: it must be greater than 0 when there is a prioritizeVerb")
	}
	for _, r := range from.ManagedResources {
		e.Resources = append(e.Resources, corev1.ResourceName(r.Name))
	}
	var err error
	e.Client, err = clientFor(from)
	return e, err
}

// clientFor makes a client from the TLS part of an extender.
func clientFor(from *configv1.Extender) (*http.Client, error) {
	if !from.EnableHTTPS && from.TLSConfig == nil {
		return nil, nil
	}
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if t := from.TLSConfig; from.EnableHTTPS && (t == nil || len(t.CAData) == 0 && t.CAFile == "") {
		tlsConfig.InsecureSkipVerify = true // as upstream: who gives no CA does not ask who answers
	} else if t != nil && t.Insecure && (len(t.CAData) > 0 || t.CAFile != "") {
		return nil, fmt.Errorf("tlsConfig: insecure: there must be no CA with it")
	}
	if t := from.TLSConfig; t != nil {
		tlsConfig.InsecureSkipVerify, tlsConfig.ServerName = tlsConfig.InsecureSkipVerify || t.Insecure, t.ServerName
		ca, err := dataOr(t.CAData, t.CAFile)
		if err != nil {
			return nil, err
		}
		if len(ca) > 0 {
			tlsConfig.RootCAs = x509.NewCertPool()
			if !tlsConfig.RootCAs.AppendCertsFromPEM(ca) {
				return nil, fmt.Errorf("tlsConfig: no certificate in the CA")
			}
		}
		cert, err := dataOr(t.CertData, t.CertFile)
		if err != nil {
			return nil, err
		}
		key, err := dataOr(t.KeyData, t.KeyFile)
		if err != nil {
			return nil, err
		}
		if len(cert) > 0 {
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("tlsConfig: %w", err)
			}
			tlsConfig.Certificates = []tls.Certificate{pair}
		}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, Proxy: http.ProxyFromEnvironment}}, nil
}

func dataOr(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("tlsConfig: %w", err)
	}
	return data, nil
}
