package cli

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// unpackedSnapshot returns the JSON in a file.
func unpackedSnapshot(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSnapshotSaysTheSame: every verb gives the same answer for a snapshot as for the cluster. The
// file has no data of the pods that could be a secret.
func TestSnapshotSaysTheSame(t *testing.T) {
	w := busyWorld(t)
	for i := range w.pods {
		p := &w.pods[i]
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "hush"
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "hush"}}
		p.Spec.Containers[0].Args = []string{"--password=hush"}
		p.Spec.Volumes = []corev1.Volume{{Name: "hush"}}
	}
	config, path := w.kubeconfig(), filepath.Join(t.TempDir(), "cluster.berth")
	if code, _, stderr := run(t, "snapshot", path, "--kubeconfig", config); code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if text := unpackedSnapshot(t, path); strings.Contains(text, "hush") {
		t.Error("the file holds what only containers should know")
	}
	if mode, err := os.Stat(path); err != nil || mode.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v, want that only its owner reads it", err, mode)
	}
	for _, args := range [][]string{{"nodes", "-o", "wide"}, {"pods", "-A", "-o", "wide"}, {"nodes", "n1", "-o", "json"}, {"node", "n1", "-o", "svg"}, {"explain", w.pods[0].Name}} {
		code, live, _ := run(t, append(args[:len(args):len(args)], "--kubeconfig", config)...)
		again, still, stderr := run(t, append(args[:len(args):len(args)], "--snapshot", path)...)
		if live != still || code != again {
			t.Errorf("%v: of the snapshot, exit code %d, %s\n%s\nof the cluster, exit code %d\n%s", args, again, stderr, still, code, live)
		}
	}
}

// TestBadSnapshots are refused, with a message that names the expected file.
func TestBadSnapshots(t *testing.T) {
	dir := t.TempDir()
	pack := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	whole := pack(`{"kind":"BerthSnapshot","version":1,"staleAfter":"1m0s"}`)
	for name, c := range map[string]struct{ content, want string }{
		"plain":   {"{}", "want a file that berth snapshot wrote"},
		"cut":     {whole[:len(whole)-12], "want a complete file that berth snapshot wrote"},
		"other":   {pack(`{"kind":"Pod"}`), `kind "Pod": want BerthSnapshot`},
		"newer":   {pack(`{"kind":"BerthSnapshot","version":7}`), "version 7: want 1; take the snapshot with this release"},
		"null":    {pack(`{"kind":"BerthSnapshot","version":1,"staleAfter":"1m","pods":[null]}`), "pods: an entry is null"},
		"minute":  {pack(`{"kind":"BerthSnapshot","version":1,"staleAfter":"soon"}`), `staleAfter "soon": want a duration`},
		"strange": {pack(`{"kind":["BerthSnapshot"]}`), "want a complete file that berth snapshot wrote"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := run(t, "nodes", "--snapshot", path)
		if code != ExitFailure || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s: exit code %d, want %q in %s", name, code, c.want, stderr)
		}
	}
	path := filepath.Join(dir, "whole")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"nodes", "-w"}, {"pods", "-w"}} {
		if code, _, stderr := run(t, append(args, "--snapshot", path)...); code != ExitFailure || !strings.Contains(stderr, "a snapshot never changes") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

// TestServeRefusesOthers: without authentication, the map is only for this machine.
func TestServeRefusesOthers(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:8270", ":8270", "192.168.1.1:80", "example.com:80", "8270", "[::]:1"} {
		if code, _, stderr := run(t, "serve", "--listen", listen, "--snapshot", "nothing"); code != ExitUsage || !strings.Contains(stderr, "--listen") {
			t.Errorf("%s: exit code %d: %s", listen, code, stderr)
		}
	}
	if code, _, stderr := run(t, "serve", "--auth", "proxy"); code != ExitUsage || !strings.Contains(stderr, `--auth "proxy": want none or cluster`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := run(t, "serve", "--auth", "cluster", "--listen", "0.0.0.0:0", "--snapshot", "../../test/web/testdata/cluster.berth"); code != ExitUsage ||
		!strings.Contains(stderr, "a snapshot has no API server to ask") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
