package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the C library's resolver.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

// validateDNS checks how names are found in a pod: dnsConfig and hostAliases.
func (s *specCheck) validateDNS(path *field.Path) {
	for i, alias := range s.spec.HostAliases {
		p := path.Child("hostAliases").Index(i)
		s.Add(validation.IsValidIPForLegacyField(p.Child("ip"), alias.IP, true, nil))
		for j, name := range alias.Hostnames {
			s.Subdomain(p.Child("hostnames").Index(j), "", name)
		}
	}
	config := s.spec.DNSConfig
	if s.spec.DNSPolicy == corev1.DNSNone {
		if config == nil {
			s.Required(path, "dnsConfig", fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone))
			return
		}
		if len(config.Nameservers) == 0 {
			s.Required(path.Child("dnsConfig"), "nameservers", fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone))
			return
		}
	}
	if config != nil {
		s.validateDNSConfig(config, path.Child("dnsConfig"))
	}
}

func (s *specCheck) validateDNSConfig(config *corev1.PodDNSConfig, path *field.Path) {
	if len(config.Nameservers) > maxNameservers {
		s.Invalid(path, "nameservers", config.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers))
	}
	for i, server := range config.Nameservers {
		s.Add(validation.IsValidIPForLegacyField(path.Child("nameservers").Index(i), server, true, nil))
	}
	if len(config.Searches) > maxSearches {
		s.Invalid(path, "searches", config.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches))
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchChars {
		s.Invalid(path, "searches", config.Searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchChars))
	}
	for i, search := range config.Searches {
		if search == "." {
			continue
		}
		search = strings.TrimSuffix(search, ".")
		s.Text(path.Child("searches").Index(i), "", search, validation.IsDNS1123SubdomainWithUnderscore(search))
	}
	for i, option := range config.Options {
		if option.Name == "" {
			s.Required(path.Child("options").Index(i), "", "must not be empty")
		}
	}
}
