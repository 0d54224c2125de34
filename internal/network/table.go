package network

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// deleteTable takes an nftables table away, with all rules in it.
func deleteTable(f Family, name string) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("network: nftables: %w", err)
	}
	conn.DelTable(f.Table(name))
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("network: delete nftables table %s: %w", name, err)
	}
	return nil
}
