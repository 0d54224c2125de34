package network_test

import (
	"net/netip"
	"testing"

	"github.com/setpoint-project/setpoint/internal/network"
	"github.com/setpoint-project/setpoint/internal/network/networktest"
)

// A machine that is a node keeps the cluster's addresses in, in both families,
// and knows it; other addresses it knows nothing about.
func TestFenced(t *testing.T) {
	m := networktest.New(t)
	for text, want := range map[string]bool{
		"10.42.7.7": true, "10.43.0.9": true, "10.44.0.1": false, "192.0.2.1": false, "fd00:10:42:7::7": true, "2001:db8::1": false,
	} {
		if got := network.Fenced(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	m.Must(m.Host.Down())
	if network.Fenced(netip.MustParseAddr("10.43.0.9")) {
		t.Error("the fence is gone, and is said to be there")
	}
}
