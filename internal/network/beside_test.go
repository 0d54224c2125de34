package network

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// besides are configurations of a second cluster on the machine of dual; those
// that have something in common with it name that.
var besides = map[string]struct {
	config Config
	shared string
}{
	"apart":                        {config(prefixes("10.52.0.0/16", "fd00:52::/56"), prefixes("10.53.0.0/16", "fd00:53::/112"), prefixes("10.52.0.0/24", "fd00:52::/64")), ""},
	"the same":                     {dual, "10.42."},
	"the same services":            {config(prefixes("10.52.0.0/16"), prefixes("10.43.0.0/16"), prefixes("10.52.0.0/24")), "10.43.0.0/16"},
	"the same services of IPv6":    {config(prefixes("10.52.0.0/16", "fd00:52::/56"), prefixes("10.53.0.0/16", "fd00:43::/112"), prefixes("10.52.0.0/24", "fd00:52::/64")), "fd00:43::/112"},
	"some of the services":         {config(prefixes("10.52.0.0/16"), prefixes("10.43.7.0/24"), prefixes("10.52.0.0/24")), "10.43.0.0/16"},
	"services in pods":             {config(prefixes("10.52.0.0/16"), prefixes("10.42.0.0/20"), prefixes("10.52.0.0/24")), "10.42."},
	"pods in services":             {config(prefixes("10.43.0.0/16"), prefixes("10.53.0.0/16"), prefixes("10.43.0.0/24")), "10.43.0.0/16"},
	"another node's part of pods":  {config(prefixes("10.42.128.0/17"), prefixes("10.53.0.0/16"), prefixes("10.42.128.0/24")), "10.42.0.0/16"},
	"IPv6 alone":                   {config(prefixes("fd00:42:0:80::/57"), prefixes("fd00:53::/112"), prefixes("fd00:42:0:80::/64")), "fd00:42::/56"},
	"more than all":                {config(prefixes("10.40.0.0/13"), prefixes("10.53.0.0/16"), prefixes("10.40.0.0/24")), "10.4"},
	"a further range for services": {config(prefixes("10.52.0.0/16"), prefixes("10.77.0.0/16"), prefixes("10.52.0.0/24")), "10.77.0.0/16"},
}

// TestBeside: a second cluster on the machine is refused exactly where it has
// addresses of the first, whether it runs or not; and whatever is left behind of
// the second, or was never raised, taking it down takes nothing from the first.
func TestBeside(t *testing.T) {
	for name, test := range besides {
		t.Run(name, func(t *testing.T) {
			machine(t)
			cable := wayOut(t, "192.0.2.1/24", "192.0.2.254", unix.RTPROT_STATIC)
			first := &Host{Config: dual}
			must(t, first.Up())
			further := prefixes("10.77.0.0/16")
			must(t, first.FenceRanges(further))
			must(t, first.RouteServices(append(further, first.ServiceCIDRs...)))
			must(t, netlink.RouteAdd(&netlink.Route{Dst: ipNet(netip.MustParsePrefix("10.42.130.0/24")), LinkIndex: cable.Attrs().Index, Protocol: routeProtocol}))
			want := state(t)

			test.config.Instance = "other"
			second := &Host{Config: test.config}
			err := second.Free()
			if test.shared == "" && err != nil || test.shared != "" && (err == nil || !strings.Contains(err.Error(), test.shared) || !strings.Contains(err.Error(), "sp-test")) {
				t.Errorf("%v, want one about %q", err, test.shared)
			}
			if err := first.Free(); err != nil {
				t.Errorf("the first once more: %v", err)
			}
			if test.shared == "" {
				must(t, second.Up())
				must(t, second.RouteServices(second.ServiceCIDRs))
				for _, h := range []*Host{first, second} {
					if err := h.Free(); err != nil {
						t.Errorf("both are up: %v", err)
					}
				}
			}
			must(t, second.Down())
			if got := state(t); got != want {
				t.Errorf("after the other's down\n%s\nwant\n%s", got, want)
			}
		})
	}
}
