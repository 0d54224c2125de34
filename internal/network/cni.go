package network

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// CNIConf is the network configuration that the container runtime reads: the
// standard plugins bridge and host-local. Pods get an address from each of the
// node's pod ranges. Masquerading and host ports are package proxy's: the
// standard plugin for host ports (portmap) would need the nft or the iptables
// program on the machine.
func (c Config) CNIConf(stateDir string) []byte {
	var ranges []any // a pod gets an address of each
	for _, p := range c.PodCIDRs {
		ranges = append(ranges, []any{map[string]any{"subnet": p.Masked().String()}})
	}
	conf := map[string]any{
		"cniVersion": "1.0.0",
		"name":       "setpoint-" + c.Instance,
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": c.Bridge(),
				"isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type":    "host-local",
					"dataDir": filepath.Join(stateDir, "ipam"),
					"ranges":  ranges,
				},
			},
		},
	}
	data, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("network: a literal cannot be marshalled: %v", err))
	}
	return append(data, '\n')
}

// WriteCNIConf puts the configuration into confDir, at once or not at all,
// and does not touch a file that is already right.
func (c Config) WriteCNIConf(confDir, stateDir string) error {
	path := filepath.Join(confDir, "10-setpoint.conflist")
	want := c.CNIConf(stateDir)
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, want) {
		return nil
	}
	if err := os.MkdirAll(confDir, 0o755); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, want, 0o644); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}
