package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/pod-security-admission/api"

	"github.com/setpoint-project/setpoint/internal/apiserver/admission"
)

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"

const standards = `
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline, enforce-version: v1.30, warn: restricted}
exemptions: {usernames: [ci], namespaces: [kube-system], runtimeClasses: [vm]}
`

var wantStandards = admission.PodSecurityConfig{
	Defaults: api.Policy{
		Enforce: api.LevelVersion{Level: api.LevelBaseline, Version: api.MajorMinorVersion(1, 30)},
		Audit:   api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()},
		Warn:    api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()},
	},
	Users: []string{"ci"}, Namespaces: []string{"kube-system"}, RuntimeClasses: []string{"vm"},
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n    ") }

// What upstream documents is read, in the file itself or beside it.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("standards.yaml", standards)
	old := strings.ReplaceAll(standards, "/v1\n", "/v1beta1\n")
	for name, text := range map[string]string{
		"within":      head + "plugins:\n- name: PodSecurity\n  configuration:" + indent(standards),
		"beside":      head + "plugins: [{name: PodSecurity, path: standards.yaml}]",
		"absolute":    head + "plugins: [{name: PodSecurity, path: " + filepath.Join(dir, "standards.yaml") + "}]",
		"old version": head + "plugins:\n- name: PodSecurity\n  configuration:" + indent(old),
	} {
		got, err := ReadFile(write("admission.yaml", text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(wantStandards, got.PodSecurity, cmp.AllowUnexported(api.Version{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, err := ReadFile(write("admission.yaml", head)); err != nil || cmp.Diff(Plugins{}, got, cmp.AllowUnexported(api.Version{})) != "" {
		t.Errorf("no plugins: %+v, %v", got, err)
	}
}

// A bad file is refused, with its name, the place, and what would be right.
func TestRefuse(t *testing.T) {
	within := func(from, to string) string {
		return head + "plugins:\n- name: PodSecurity\n  configuration:" + indent(strings.Replace(standards, from, to, 1))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":         {"plugins: [", "admission configuration: error converting YAML to JSON"},
		"unknown field":   {head + "plugin: []", `unknown field "plugin"`},
		"another kind":    {standards, `it is a "PodSecurityConfiguration" of "pod-security.admission.config.k8s.io/v1"; an AdmissionConfiguration of apiserver.config.k8s.io/v1 is due`},
		"no name":         {head + "plugins: [{path: x}]", "plugins[0].name: must not be empty"},
		"another plugin":  {head + "plugins: [{name: EventRateLimit, path: x}]", `plugins[0].name: "EventRateLimit" cannot be configured here; only PodSecurity can`},
		"twice":           {within("", "") + "\n- {name: PodSecurity, path: x}", `plugins[1].name: "PodSecurity" comes twice`},
		"nothing":         {head + "plugins: [{name: PodSecurity}]", "plugins[0]: one of configuration and path must be set"},
		"no such file":    {head + "plugins: [{name: PodSecurity, path: nowhere.yaml}]", "plugins[0].path: open "},
		"another version": {within("k8s.io/v1", "k8s.io/v7"), "plugins[0].configuration: "},
		"unknown level":   {within("baseline", "lax"), `plugins[0].configuration: defaults.enforce: Invalid value: "lax"`},
		"unknown version": {within("v1.30", "v1"), `defaults.enforce-version: Invalid value: "v1"`},
		"unknown default": {within("enforce:", "enforces:"), `unknown field "defaults.enforces"`},
		"bad namespace":   {within("kube-system", "Kube_System"), `exemptions.namespaces[0]: Invalid value: "Kube_System"`},
		"namespace twice": {within("[kube-system]", "[a, a]"), `exemptions.namespaces[1]: Duplicate value: "a"`},
		"bad class":       {within("[vm]", "[-]"), `exemptions.runtimeClasses[0]: Invalid value: "-"`},
		"empty user":      {within("[ci]", `[""]`), "exemptions.usernames[0]: Invalid value: \"\": username must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "admission.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadFile(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("got %v\nwant the file's name, and %q", err, tc.want)
			}
		})
	}
	if _, err := ReadFile("nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "open nowhere.yaml") {
		t.Errorf("no file: %v", err)
	}
}
