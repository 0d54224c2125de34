package cluster

import (
	"fmt"
	"net/netip"
	"strings"
)

// Prefixes are ranges of addresses, one or two of different families, that of
// the primary family first. As text they stand behind each other, with a comma
// between them: one alone looks as a netip.Prefix does. They are a flag.
type Prefixes []netip.Prefix

// Primary is the range of the primary family; the zero Prefix where there is
// none.
func (p Prefixes) Primary() netip.Prefix { return first(p) }

func (p Prefixes) String() string                { return joined(p) }
func (p Prefixes) Type() string                  { return "CIDR[,CIDR]" }
func (p Prefixes) MarshalText() ([]byte, error)  { return []byte(joined(p)), nil }
func (p *Prefixes) UnmarshalText(t []byte) error { return p.Set(string(t)) }

// Set reads what the flag says.
func (p *Prefixes) Set(text string) (err error) {
	*p, err = split(text, func(s string) (netip.Prefix, error) {
		v, err := netip.ParsePrefix(s)
		return v.Masked(), err
	})
	return err
}

// Addresses are one or two of different families, as Prefixes are.
type Addresses []netip.Addr

// Primary is the first; the zero Addr where there is none.
func (a Addresses) Primary() netip.Addr { return first(a) }

func (a Addresses) String() string                { return joined(a) }
func (a Addresses) Type() string                  { return "IP[,IP]" }
func (a Addresses) MarshalText() ([]byte, error)  { return []byte(joined(a)), nil }
func (a *Addresses) UnmarshalText(t []byte) error { return a.Set(string(t)) }

// Set reads what the flag says.
func (a *Addresses) Set(text string) (err error) {
	*a, err = split(text, netip.ParseAddr)
	return err
}

func first[T any](list []T) (zero T) {
	if len(list) == 0 {
		return zero
	}
	return list[0]
}

func joined[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = v.String()
	}
	return strings.Join(texts, ",")
}

func split[T any](text string, parse func(string) (T, error)) ([]T, error) {
	if text == "" {
		return nil, nil
	}
	var list []T
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// onePerFamily says what is wrong with more of a flag than one of each family.
func onePerFamily[T fmt.Stringer](flag string, list []T, is6 func(T) bool) error {
	if len(list) > 2 || len(list) == 2 && is6(list[0]) == is6(list[1]) {
		return fmt.Errorf("%s %s: must be one, or one of each family", flag, joined(list))
	}
	return nil
}
