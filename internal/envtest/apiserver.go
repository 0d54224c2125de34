package envtest

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/setpoint-project/setpoint/internal/apiserver/authn"
	"github.com/setpoint-project/setpoint/internal/cluster"
)

// serverFlags are the flags of kube-apiserver that mean something here.
// https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
type serverFlags struct {
	bindAddress, certDir, certFile, keyFile   string
	clientCAFile, tokenAuthFile               string
	issuers, serviceAccountKeys               []string
	signingKey, serviceRange                  string
	authorization, withAdmission, noAdmission []string
	port                                      int
	withControllers                           bool
}

// passedOver are flags of kube-apiserver that change nothing here: what they
// ask for is so anyway, or is about a part that Setpoint does not have.
var passedOver = []string{
	"advertise-address", "allow-privileged", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix", "etcd-servers",
	"etcd-servers-overrides", "event-ttl", "insecure-port", "storage-backend", "storage-media-type", "v", "vmodule", "watch-cache",
	"default-watch-cache-size", "endpoint-reconciler-type", "profiling", "enable-garbage-collector", "max-requests-inflight",
	"max-mutating-requests-inflight", "enable-priority-and-fairness", "min-request-timeout", "delete-collection-workers",
}

func (f *serverFlags) set() *pflag.FlagSet {
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	fs.StringVar(&f.bindAddress, "bind-address", "0.0.0.0", "address to listen on")
	fs.IntVar(&f.port, "secure-port", 6443, "port to listen on")
	fs.StringVar(&f.certDir, "cert-dir", "", "folder that holds apiserver.crt and apiserver.key")
	fs.StringVar(&f.certFile, "tls-cert-file", "", "certificate to serve with, instead of the folder's")
	fs.StringVar(&f.keyFile, "tls-private-key-file", "", "its key")
	fs.StringVar(&f.clientCAFile, "client-ca-file", "", "authorities whose client certificates are believed")
	fs.StringVar(&f.tokenAuthFile, "token-auth-file", "", "CSV of token,user,uid,\"groups\"")
	fs.StringSliceVar(&f.issuers, "service-account-issuer", nil, "issuer of service account tokens")
	fs.StringArrayVar(&f.serviceAccountKeys, "service-account-key-file", nil, "keys by which service account tokens are known")
	fs.StringVar(&f.signingKey, "service-account-signing-key-file", "", "key that signs them")
	fs.StringVar(&f.serviceRange, "service-cluster-ip-range", "10.0.0.0/24", "range of the services' addresses, or one of each family")
	fs.StringSliceVar(&f.authorization, "authorization-mode", []string{"RBAC"}, "RBAC, Node or AlwaysAllow")
	fs.StringSliceVar(&f.withAdmission, "enable-admission-plugins", nil, "admission plugins to run in any case")
	fs.StringSliceVar(&f.noAdmission, "disable-admission-plugins", nil, "admission plugins to leave out")
	fs.BoolVar(&f.withControllers, "with-controllers", false, "turn the loops as well, the garbage collector among them (a flag of setpoint alone)")
	return fs
}

// RunAPIServer is an API server with its store in memory until ctx ends.
func RunAPIServer(ctx context.Context, args []string, out, errOut io.Writer) error {
	var f serverFlags
	if err := parse(f.set(), passedOver, args, out, errOut); err != nil {
		if errors.Is(err, errHelp) {
			return nil
		}
		return err
	}
	ctx, cancel := whileParent(ctx, os.Getppid)
	defer cancel()
	o, err := f.options()
	if err != nil {
		return err
	}
	o.Logger = slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// Keys and kubeconfigs of our own. In the folder of the certificates they
	// are gone with it, even when this process is killed.
	if o.DataDir, err = os.MkdirTemp(f.certDir, "setpoint-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.DataDir)
	if err := o.Validate(); err != nil {
		return err
	}
	if f.withControllers {
		return cluster.Up(ctx, o)
	}
	return cluster.RunServer(ctx, o)
}

// options are what the flags ask for.
func (f *serverFlags) options() (cluster.Options, error) {
	o := cluster.Options{
		InMemory: true,
		Nodes:    "none",
		Listen:   net.JoinHostPort(f.bindAddress, strconv.Itoa(f.port)),
	}
	err := o.ServiceCIDRs.Set(f.serviceRange)
	if err != nil {
		return o, fmt.Errorf("--service-cluster-ip-range: %w", err)
	}
	for _, p := range o.ServiceCIDRs {
		// No pod gets an address: any range will do.
		pods := netip.MustParsePrefix("10.42.0.0/16")
		if p.Addr().Is6() {
			pods = netip.MustParsePrefix("fd00:42::/56")
		}
		o.ClusterCIDRs = append(o.ClusterCIDRs, pods)
	}
	o.Given.AllowAll = slices.Contains(f.authorization, "AlwaysAllow")
	for _, name := range f.noAdmission {
		if !slices.Contains(f.withAdmission, name) {
			o.Given.WithoutAdmission = append(o.Given.WithoutAdmission, name)
		}
	}
	if o.Given.Serving, err = f.serving(); err != nil {
		return o, err
	}
	if f.clientCAFile != "" {
		if o.Given.ClientCAs, err = certificates(f.clientCAFile); err != nil {
			return o, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	if f.tokenAuthFile != "" {
		known, err := readTokens(f.tokenAuthFile)
		if err != nil {
			return o, fmt.Errorf("--token-auth-file: %w", err)
		}
		o.Given.Authenticators = []authn.Authenticator{known}
	}
	if len(f.issuers) > 0 {
		o.Given.Issuer = f.issuers[0]
	}
	if o.Given.Signer, o.Given.Keys, err = f.serviceAccounts(); err != nil {
		return o, err
	}
	return o, nil
}

// serviceAccounts are the keys that sign tokens and by which they are known.
func (f *serverFlags) serviceAccounts() (crypto.Signer, []crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for _, path := range f.serviceAccountKeys {
		more, err := publicKeys(path)
		if err != nil {
			return nil, nil, fmt.Errorf("--service-account-key-file: %w", err)
		}
		keys = append(keys, more...)
	}
	if f.signingKey == "" {
		return nil, keys, nil
	}
	signer, err := privateKey(f.signingKey)
	if err != nil {
		return nil, nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
	}
	return signer, keys, nil
}
