// Command tool is what the pods of the end-to-end tests run: a server that
// tells who it is and can be made sick, and a client that tells what it got.
//
//	tool serve [-http ADDR] [-udp ADDR] [-grpc ADDR] (what it does unasked)
//	tool get [-ca FILE] [-token FILE] URL
//	tool load URL... (until its input ends; tells how many requests were lost)
//	tool eat MEBIBYTES
//
// It answers at /slow in two halves, a second apart.
// The server is healthy unless /tmp/sick is there, and ready unless
// /tmp/unready is.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tool:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{"serve"}
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "get":
		return get(args[1:])
	case "load":
		return load(args[1:], os.Stdin, os.Stdout)
	case "eat":
		return eat(args[1:])
	}
	return fmt.Errorf("no command %q", args[0])
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	httpAddr := flags.String("http", ":8080", "")
	udpAddr := flags.String("udp", "", "")
	grpcAddr := flags.String("grpc", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	failed := make(chan error, 3)
	go func() { failed <- http.ListenAndServe(*httpAddr, handler(host)) }()
	if *udpAddr != "" {
		conn, err := net.ListenPacket("udp", *udpAddr)
		if err != nil {
			return err
		}
		go func() { failed <- echo(conn, host) }()
	}
	if *grpcAddr != "" {
		l, err := net.Listen("tcp", *grpcAddr)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, health{})
		go func() { failed <- server.Serve(l) }()
	}
	return <-failed
}

func handler(host string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s answers %s\n", host, r.RemoteAddr)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s begins\n", host)
		http.NewResponseController(w).Flush()
		time.Sleep(time.Second)
		fmt.Fprintf(w, "%s ends\n", host)
	})
	unless := func(file string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if there(file) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
	}
	mux.HandleFunc("/healthy", unless("/tmp/sick"))
	mux.HandleFunc("/ready", unless("/tmp/unready"))
	return mux
}

func echo(conn net.PacketConn, host string) error {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		if _, err := conn.WriteTo(fmt.Appendf(nil, "%s got %s", host, buf[:n]), from); err != nil {
			return err
		}
	}
}

type health struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (health) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	status := grpc_health_v1.HealthCheckResponse_SERVING
	if there("/tmp/sick") {
		status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: status}, nil
}

// get prints the status code and the body; only no answer at all is an error.
func get(args []string) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	ca := flags.String("ca", "", "")
	token := flags.String("token", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	transport := &http.Transport{}
	if *ca != "" {
		pem, err := os.ReadFile(*ca)
		if err != nil {
			return err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("no certificate in %s", *ca)
		}
	}
	req, err := http.NewRequest(http.MethodGet, flags.Arg(0), nil)
	if err != nil {
		return err
	}
	if *token != "" {
		t, err := os.ReadFile(*token)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(t)))
	}
	res, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	fmt.Println(res.StatusCode)
	_, err = io.Copy(os.Stdout, res.Body)
	return err
}

// eat takes memory and keeps it.
func eat(args []string) error {
	if len(args) != 1 {
		return errors.New("eat how much?")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var kept [][]byte
	for range n {
		kept = append(kept, bytes.Repeat([]byte{1}, 1<<20))
	}
	fmt.Println("ate", len(kept))
	select {}
}
