// Package crd makes what a CustomResourceDefinition says served: it turns the
// definition into a kinds.Kind, the same struct that describes built-in kinds,
// and hands it to the API server, which serves it by the same code (law 6).
// https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/
//
//	definition --Registrar--> names accepted, established (its status)
//	     |                           |
//	     +--- newKind ---> kinds.Kind --Registry.Serve--> requests
//	                          |
//	   body --split--> Object --prune, default--> admit --> rules of the schema
//
// Objects are of type Object; they lie in the store as JSON, as upstream has
// it, in the version that the definition names for storage.
//
// Cost: until somebody reads or writes an object, a kind is its names and the
// encoded schema. The schema is compiled for the first object, its rules for
// the first write. Upstream's packages prune, fill in, check and read back, but
// are asked only where a compiled form of the schema (form, plain, parser) is in
// doubt: each of these may say no to what is right, never yes to what is wrong,
// and a test holds each against the package that it spares.
//
// Use: New, Load before the server takes requests, then Run.
//
// Concurrency: kinds and objects are as package kinds wants them. A Registrar
// looks at one definition at a time, since names are given to whoever comes
// first.
//
// Failure: a definition that cannot be served says so in its conditions.
package crd
