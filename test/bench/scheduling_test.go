package main

import "testing"

// BenchmarkScheduling plays each workload: run it with -benchtime 1x.
func BenchmarkScheduling(b *testing.B) {
	for i := range workloads {
		b.Run(workloads[i].name, func(b *testing.B) {
			for range b.N {
				workloads[i].play(b, "", func(string, map[string]any) {})
			}
		})
	}
}
