package controllertest

import (
	"context"
	"sync"

	"github.com/setpoint-project/setpoint/internal/controllers"
)

// Turn runs loops until stop is called, which returns when all have ended.
func Turn(loops ...controllers.Controller) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, l := range loops {
		wg.Go(func() { l.Run(ctx) })
	}
	return func() { cancel(); wg.Wait() }
}
