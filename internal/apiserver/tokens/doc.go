// Package tokens answers questions about identities and rights, and issues
// service account tokens:
//
//	serviceaccounts/token        Issuer.ServeToken
//	tokenreviews                 Reviews.ServeToken
//	selfsubjectreviews           Reviews.ServeSelf
//	subjectaccessreviews, ...    Access.Serve...
//	/openid/v1/jwks, /.well-known/openid-configuration   OpenID
//
// Each is a handler for apiserver.Config: the request is authenticated and
// authorized when it comes here. Nothing is stored, so every handler may be
// used from many goroutines. What goes wrong is answered with the
// metav1.Status that upstream gives.
package tokens
