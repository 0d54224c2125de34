// Package dynamic is admission that is set up by objects of the API: webhooks,
// which ask somebody else, and policies, which say it in CEL.
//
//	hooks := dynamic.New(dynamic.Config{...})
//	plugins = append(plugins, hooks.Mutating(), ..., hooks.Policies(), hooks.Validating())
//	... the server is made ...
//	hooks.Open(view)
//
// A configuration is compiled when it changes, and its expressions when the
// first request meets them. Where there is none a request pays for one atomic
// load a plugin. Configurations are followed as they are written, within a
// millisecond; those that are there when Open returns hold for every request
// after it.
//
// Everything here may be used from many goroutines. What cannot be asked or
// evaluated refuses the request, unless its failurePolicy is Ignore.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
package dynamic
