package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-dev/berth/internal/scheduler"
)

// runToEnd runs berth-scheduler to its end, and returns what it printed.
func runToEnd(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, os.Args[0], append([]string{schedulerVerb}, args...)...).CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("berth-scheduler %q does not end:\n%s", args, out)
	}
	return string(out), err
}

// TestIncompleteProfileDoesNotStart: berth-scheduler names the missing line, and starts with the
// line that it proposes.
func TestIncompleteProfileDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	// No server listens there. A scheduler that starts tries again and again; otherwise it exits.
	config := clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://127.0.0.1:1"}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c"}
	if err := clientcmd.WriteToFile(config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	whole, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: kubeconfig, SchedulerName: "main"})
	if err != nil {
		t.Fatal(err)
	}
	const bind, postFilter = "    bind:\n      enabled:\n      - name: Berth\n", "    postFilter:\n      enabled:\n      - name: Berth\n      - name: BerthClaims\n"
	const nowhere = "    multiPoint:\n      disabled:\n      - name: DynamicResources\n      enabled:\n"
	points := nowhere + fmt.Sprintf("      - name: Berth\n        weight: %d\n", scheduler.Weight)
	tiers := fmt.Sprintf("      - name: BerthTiers\n        weight: %d\n", scheduler.TiersWeight)
	for what, tc := range map[string]struct{ from, to, want string }{
		"without bind":       {bind, "", "bind has DefaultBinder before Berth"},
		"without postFilter": {postFilter, "", "postFilter has DefaultPreemption before Berth"},
		"with reserve off":   {bind, bind + "    reserve:\n      disabled:\n      - name: Berth\n", "reserve lacks Berth"},
		"without tiers":      {tiers, "", "preScore lacks BerthTiers; score lacks BerthTiers"},
		"with bind alone":    {points, nowhere, "filter lacks Berth"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(string(whole), tc.from, tc.to, 1)
			if text == string(whole) {
				t.Fatalf("no %q in\n%s", tc.from, whole)
			}
			file := filepath.Join(t.TempDir(), "config.yaml")
			write(t, file, []byte(text))
			out, err := runToEnd(t, "--config="+file, "--secure-port=0")
			if err == nil || !strings.Contains(out, tc.want) || !strings.Contains(out, `profile "main"`) {
				t.Errorf("%v, want a failure that says %q of profile main; it printed\n%s", err, tc.want, out)
			}
		})
	}
}

func TestSchedulerSaysWhoItIs(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--version": "berth-scheduler unknown (Kubernetes v", // go test sets no version
		"--help":    "Usage:\n  berth-scheduler [flags]",
	} {
		if out, err := runToEnd(t, flag); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q in\n%.600s", flag, err, want, out)
		}
	}
	if out, err := runToEnd(t, "--version=raw"); err != nil || !strings.Contains(out, "GitVersion") {
		t.Errorf("--version=raw: %v\n%.600s", err, out)
	}
	if out, err := runToEnd(t, "extra"); err == nil || !strings.Contains(out, "extra") {
		t.Errorf("an argument: %v\n%.600s", err, out)
	}
}
