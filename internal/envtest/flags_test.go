package envtest

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse: flags that mean something are obeyed in either spelling, others
// never stop the server, and only the surprising ones are told.
func TestParse(t *testing.T) {
	var f serverFlags
	var out, told bytes.Buffer
	err := parse(f.set(), passedOver, []string{
		"--bind-address=127.0.0.1", "--secure-port", "4711", "--allow-privileged=true", "--etcd-servers=http://127.0.0.1:2",
		"--disable-admission-plugins=ServiceAccount,Priority", "--service-account-key-file=a", "--service-account-key-file=b",
		"--with-controllers", "--audit-log-path", "/x", "--anonymous-auth", "--v=4",
	}, &out, &told)
	if err != nil {
		t.Fatal(err)
	}
	want := serverFlags{
		bindAddress: "127.0.0.1", port: 4711, noAdmission: []string{"ServiceAccount", "Priority"}, withControllers: true,
		serviceAccountKeys: []string{"a", "b"}, authorization: []string{"RBAC"}, serviceRange: "10.0.0.0/24",
	}
	if diff := cmp.Diff(want, f, cmp.AllowUnexported(serverFlags{})); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	wantTold := "kube-apiserver: warning: --audit-log-path has no effect in setpoint\n" +
		"kube-apiserver: warning: --anonymous-auth has no effect in setpoint\n"
	if diff := cmp.Diff(wantTold, told.String()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestParseRefuses: a flag that means something must be right.
func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--secure-port", "--secure-port needs a value"},
		{"--secure-port --v=1", "--secure-port needs a value"},
		{"--secure-port=x", "invalid argument \"x\""},
	} {
		var f serverFlags
		var out bytes.Buffer
		err := parse(f.set(), passedOver, strings.Fields(test.args), &out, &out)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.args, err, test.want)
		}
	}
}

// TestHelp: envtest reads there which flags it may pass. A flag that is not
// listed must be one that it can do without.
func TestHelp(t *testing.T) {
	var f serverFlags
	var out bytes.Buffer
	if err := parse(f.set(), passedOver, []string{"--help"}, &out, &out); !errors.Is(err, errHelp) {
		t.Fatalf("got %v, want errHelp", err)
	}
	for name, want := range map[string]bool{"secure-port": true, "insecure-port": false} {
		if got := regexp.MustCompile(`(?m)^\s*--` + name + `\b`).MatchString(out.String()); got != want {
			t.Errorf("--%s listed: %v, want %v", name, got, want)
		}
	}
}
