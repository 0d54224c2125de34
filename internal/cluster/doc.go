// Package cluster is the composition root: it wires store, API server, loops,
// scheduler and node with plain constructor calls, all in one process (Up) or
// each alone (RunServer, RunControllers, RunScheduler, RunAgent, RunSimulated).
//
//	Up = Server + Controllers + Scheduler + Agent or simulated nodes
//
// In one process the loops reach the API server by its in-process client, else
// over the network; each part carries its own identity either way.
//
// Every Run function blocks until its context ends and all that it started has
// stopped. Containers, network rules and the container runtime outlive it;
// Down takes them away.
package cluster
