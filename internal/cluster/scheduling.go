package cluster

import (
	"fmt"
	"os"

	"github.com/setpoint-project/setpoint/internal/scheduler"
	"github.com/setpoint-project/setpoint/internal/scheduler/config"
)

// scheduling reads the scheduler's configuration file, if there is one.
func (o *Options) scheduling() ([]scheduler.Profile, []scheduler.Extender, error) {
	if o.SchedulerConfig == "" {
		return nil, nil, nil
	}
	data, err := os.ReadFile(o.SchedulerConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("--scheduler-config: %w", err)
	}
	profiles, extenders, err := config.Read(data)
	if err != nil {
		return nil, nil, fmt.Errorf("--scheduler-config %s: %w", o.SchedulerConfig, err)
	}
	return profiles, extenders, nil
}
