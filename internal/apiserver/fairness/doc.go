// Package fairness sees that no client can starve the others: it bounds how
// many requests run at once, and whom the next free place goes to.
//
//	request --match--> schema --> level --+-- place free --> runs
//	                                      +-- queue of its flow (a user, or a namespace)
//	                                             turn by turn among the flows
//
// Schemas and levels are those of Kubernetes' API priority and fairness:
// FlowSchemas sort requests by user, verb and resource into
// PriorityLevelConfigurations, which say how many seats a level has by its
// shares. What Kubernetes suggests is built in; objects of the API with the
// same names take their place, others come in addition.
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
//
// Where we deviate: each flow has a queue of its own in place of a few that are
// shared by shuffle sharding, since a queue costs nothing until it is needed;
// a level may use whatever seats the others leave free, and one that is below
// its own share never waits for those who borrowed.
//
// Requests take seats by what they cost: a list of many objects up to
// MaxSeats, all others one.
//
// Concurrency: all methods may be called from many goroutines. Without
// overload a request takes one mutex twice, and an exempt one none.
//
// Failure: a request that finds its queue full, or waits for longer than
// Options.MaxWait, is refused with ErrTooMany; it is to be answered with 429.
package fairness
