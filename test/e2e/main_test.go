// Package e2e shows what a user sees: the setpoint binary with real
// containers, driven by the real kubectl, inside a network namespace with no
// way out. See package harness.
package e2e

import (
	"testing"

	"github.com/setpoint-project/setpoint/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
