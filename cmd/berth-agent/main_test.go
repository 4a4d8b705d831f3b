package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/guarded"
)

func TestWrongUsage(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "--node-name is missing"},
		{[]string{"--node-name=n", "more"}, exitUsage, `argument "more": want only flags`},
		{[]string{"--node-name=n", "--log-format=xml"}, exitUsage, "--log-format"},
		{[]string{"--node-name=n", "--device-preferences=x.y/z=often"}, exitUsage, "x.y/z=often"},
		{[]string{"--node-name=n", "--configz=https://n/configz", "--kubelet-config=f"}, exitUsage, "want neither --kubelet-config"},
		{[]string{"--node-name=n", "--metrics-cert-dir=/certs"}, exitUsage, "--metrics-cert-dir /certs: with --metrics-auth=none"},
		{[]string{"--surprise"}, exitUsage, "surprise"},
		{[]string{"--help"}, exitOK, "node-name"},
		{[]string{"--node-name=n", "--kubeconfig=/nonexistent"}, exitFailure, "/nonexistent"},
	} {
		var errs bytes.Buffer
		if code := run(t.Context(), append([]string{"berth-agent"}, tc.args...), io.Discard, &errs); code != tc.code || !strings.Contains(errs.String(), tc.want) {
			t.Errorf("%v: exit code %d, stderr %q; want %d and %q", tc.args, code, errs.String(), tc.code, tc.want)
		}
	}
}

// TestMissingRoot: a kubelet may have its files in another directory, and a pod sees only what is
// mounted.
func TestMissingRoot(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	const text = `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],` +
		`"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		filepath.Join(dir, "absent"): "no such file or directory: want the kubelet's root directory",
		kubeconfig:                   "not a directory",
	} {
		var errs bytes.Buffer
		args := []string{"berth-agent", "--node-name=n", "--kubeconfig=" + kubeconfig, "--kubelet-root-dir=" + root, "--listen="}
		code := run(t.Context(), args, io.Discard, &errs)
		if code != exitFailure || !strings.Contains(errs.String(), "--kubelet-root-dir="+root) || !strings.Contains(errs.String(), want) {
			t.Errorf("exit code %d, stderr %q; want %d, the flag and %q", code, errs.String(), exitFailure, want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	var out, wrong strings.Builder
	if code := run(t.Context(), []string{"berth-agent", "--version"}, &out, &wrong); code != exitOK || wrong.String() != "" || out.String() != "berth-agent version unknown\n" {
		t.Errorf("exit code %d, %q, %q", code, out.String(), wrong.String())
	}
}

// served starts the agent's own HTTP server, and returns its address.
func served(t *testing.T, auth string, registry *prometheus.Registry) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := &settings{listen: l.Addr().String(), metricsAuth: auth, options: agent.Options{
		Node: "n1", Client: &rest.Config{Host: "127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)}}
	stop, err := s.serve(registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s.listen
}

// TestMetricsAreGuarded: clients without a token can only check over TLS whether the agent is
// alive.
func TestMetricsAreGuarded(t *testing.T) {
	address := served(t, guarded.Cluster, prometheus.NewRegistry())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 401} {
		resp, err := client.Get("https://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
		}
	}
	if resp, err := http.Get("http://" + address + "/metrics"); err == nil {
		if resp.Body.Close(); resp.StatusCode == 200 {
			t.Error("metrics are served over plain HTTP, too")
		}
	}
}

func TestServe(t *testing.T) {
	registry, age := prometheus.NewRegistry(), -1.0
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "berth_agent_report_age_seconds"}, func() float64 { return age }))
	address := served(t, guarded.None, registry)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for _, tc := range []struct {
		path string
		age  float64
		code int
		want string
	}{
		{"/healthz", -1, 200, "ok"},
		{"/readyz", -1, 503, "no report was confirmed in the last 60 s"},
		{"/readyz", 3, 200, "3 s ago"},
		{"/readyz", 600, 503, "no report was confirmed in the last 60 s"},
		{"/metrics", 3, 200, "berth_agent_report_age_seconds 3"},
	} {
		age = tc.age
		if code, body := get(tc.path); code != tc.code || !strings.Contains(body, tc.want) {
			t.Errorf("%s with age %v: %d %q, want %d and %q", tc.path, tc.age, code, body, tc.code, tc.want)
		}
	}
}
