package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/wire"
)

// keptPlayground is a playground with its Keeper, as in berth-demo up.
type keptPlayground struct {
	*demo.Cluster
	kubeconfig string
	told       *lockedBuffer
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startKept starts a playground of nodes a and b with two schedulers.
func startKept(t *testing.T) *keptPlayground {
	t.Helper()
	opts := demoOptions(t, 1)
	opts.Server, opts.Schedulers, opts.Metrics = "", 2, true
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	write(t, config, []byte(ownConfig))
	for _, name := range []string{"a", "b"} {
		spec, err := demo.ParseNode("name=" + name + ",machine=package:2 numa:1 core:8 pu:2 mem:16Gi,config=" + config)
		if err != nil {
			t.Fatal(err)
		}
		opts.Own = append(opts.Own, spec)
	}
	starting, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	// The limit is shorter than in a cluster, to shorten the test.
	c, err := demo.StartPlayground(starting, opts, demo.Berth{Args: &scheduler.Args{StaleAfter: metav1.Duration{Duration: 10 * time.Second}}})
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, c.Stop)
	p := &keptPlayground{Cluster: c, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), told: &lockedBuffer{}}
	k, err := demo.NewKeeper(c, p.told)
	if err != nil {
		t.Fatal(err)
	}
	access, err := k.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.kubeconfig, access)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// ask sends a command as berth-demo break and mend do.
func (p *keptPlayground) ask(t *testing.T, words string) string {
	t.Helper()
	text, err := demo.Ask(t.Context(), p.kubeconfig, strings.Fields(words)...)
	if err != nil {
		t.Fatalf("%s: %v", words, err)
	}
	t.Logf("%s: %s", words, text)
	return text
}

// process returns the process id of the part in that state, from the table of parts.
func (p *keptPlayground) process(t *testing.T, part, state string) (pid int) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + part + ` +` + state + ` +(\d+)`)
	eventually(t, part+" "+state, func() error {
		table, err := demo.Ask(t.Context(), p.kubeconfig, "parts")
		if err != nil {
			return err
		}
		m := line.FindStringSubmatch(table)
		if m == nil {
			return errors.New("\n" + table)
		}
		_, err = fmt.Sscan(m[1], &pid)
		return err
	})
	return pid
}

// kill kills the part's process without the Keeper, and waits until the Keeper reports this.
func (p *keptPlayground) kill(t *testing.T, part, state string) {
	t.Helper()
	pid := p.process(t, part, state)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(" (process %d) ended: signal: killed; the playground starts it again in ", pid)
	eventually(t, part+" is told of", func() error {
		if told := p.told.String(); !strings.Contains(told, want) {
			return fmt.Errorf("%q: want %q", told, want)
		}
		return nil
	})
}

// runs creates a pod with 2 exclusive CPUs, on the node or, with "", on any node, and waits until
// it runs.
func (p *keptPlayground) runs(t *testing.T, name, node string) {
	t.Helper()
	p.create(t, name, node)
	p.running(t, name)
}

func (p *keptPlayground) create(t *testing.T, name, node string) {
	t.Helper()
	pod := pinnedPod(name, "", "2")
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	if _, err := p.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (p *keptPlayground) running(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" runs", func() error {
		pod, err := p.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("%s on %q: %s; %s", pod.Status.Phase, pod.Spec.NodeName, wire.Unscheduled(pod).Message, p.told)
		}
		return err
	})
}

// ready waits until the Node's condition Ready has the status.
func (p *keptPlayground) ready(t *testing.T, node string, want corev1.ConditionStatus) {
	t.Helper()
	eventually(t, node+" Ready="+string(want), func() error {
		n, err := p.Client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("%v", n.Status.Conditions)
	})
}

// readMetrics reads each part's metrics at the address in the table of parts.
func readMetrics(t *testing.T, table string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	found := regexp.MustCompile(`(?m)^(scheduler|agent).* (https?://127\.0\.0\.1:\d+/metrics)$`).FindAllStringSubmatch(table, -1)
	if len(found) != 4 {
		t.Fatalf("%d addresses: want those of 2 schedulers and 2 agents:\n%s", len(found), table)
	}
	for _, f := range found {
		want := map[string]string{"scheduler": "berth_scheduler_leads", "agent": "berth_agent_report_ready 1"}[f[1]]
		eventually(t, f[2], func() error { // a standby may not listen yet
			resp, err := client.Get(f[2])
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err == nil && !bytes.Contains(text, []byte(want)) {
				err = fmt.Errorf("%s: want %s in it:\n%.2000s", resp.Status, want, text)
			}
			return err
		})
	}
}

// TestNoPlayground checks the output of break and mend if no playground answers.
func TestNoPlayground(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	write(t, other, []byte("apiVersion: v1\nkind: Config\n"))
	ended := filepath.Join(dir, "ended")
	write(t, ended, []byte("apiVersion: v1\nkind: Config\nextensions: [{name: playground.berth.dev, extension: {socket: "+filepath.Join(dir, "s")+"}}]\n"))
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file or directory: want the kubeconfig of a running playground",
		other:                      "the file has no address of a playground",
		ended:                      "the playground of " + ended + " does not answer",
	} {
		if _, err := demo.Ask(t.Context(), path, "break", "scheduler"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v: want one sentence with %q", path, err, want)
		}
	}
}

// TestPlaygroundIsBroken breaks a playground in every way. Killed parts restart by themselves,
// broken parts when they are mended, and pods are placed after each. This test takes longest. It is
// the last in the package, because the last parallel tests are among the first to start.
func TestPlaygroundIsBroken(t *testing.T) {
	t.Parallel() // the test mostly waits
	p := startKept(t)
	p.runs(t, "first", "")
	t.Run("metrics", func(t *testing.T) { readMetrics(t, p.ask(t, "parts")) })
	t.Run("a scheduler that dies", func(t *testing.T) {
		p.process(t, `scheduler(?:-2)?`, "stands by")
		p.kill(t, `scheduler(?:-2)?`, "leads")
		p.runs(t, "after-scheduler", "")
		p.process(t, `scheduler(?:-2)?`, "stands by") // the killed scheduler
	})
	t.Run("an agent and a node that die", func(t *testing.T) {
		p.kill(t, "agent a", "runs")
		p.kill(t, "node b", "runs")
		p.process(t, "agent a", "runs")
		p.process(t, "node b", "runs")
		p.runs(t, "after-agent", "a")
		p.runs(t, "after-node", "b")
	})
	t.Run("break scheduler", func(t *testing.T) {
		p.ask(t, "break scheduler")
		p.runs(t, "by-the-other", "")
		p.ask(t, "break scheduler")
		if text, err := demo.Ask(t.Context(), p.kubeconfig, "break", "scheduler"); err == nil {
			t.Errorf("a third was broken: %s", text)
		}
		p.create(t, "by-nobody", "")
		p.ask(t, "mend scheduler")
		p.running(t, "by-nobody")
	})
	p.ask(t, "break node b") // the cluster notices this late
	t.Run("break agent", func(t *testing.T) {
		p.ask(t, "break agent a")
		eventually(t, "pods for a wait for its agent", func() error {
			pods := p.Client.CoreV1().Pods(metav1.NamespaceDefault)
			pod, err := pods.Get(t.Context(), "waits", metav1.GetOptions{})
			if err == nil && strings.Contains(wire.Unscheduled(pod).Message, wire.NoSignOfLife) {
				return nil
			}
			if err == nil && pod.Spec.NodeName == "" {
				return errors.New(wire.Unscheduled(pod).Message)
			}
			// This pod was placed before the node counted as silent.
			_ = pods.Delete(t.Context(), "waits", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			pod = pinnedPod("waits", "", "2")
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
			_, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
			return fmt.Errorf("created again: %w", err)
		})
		p.ask(t, "mend agent a")
		p.running(t, "waits")
	})
	t.Run("break node", func(t *testing.T) {
		p.ready(t, "b", corev1.ConditionUnknown)
		p.ask(t, "mend node b")
		p.ready(t, "b", corev1.ConditionTrue)
		p.runs(t, "after-broken-node", "b")
	})
	t.Run("break api", func(t *testing.T) {
		p.ask(t, "break api")
		if _, err := p.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the API server answers: %v", err)
		}
		p.ask(t, "mend api")
		eventually(t, "the API server answers", func() error {
			_, err := p.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			return err
		})
		p.runs(t, "after-api", "")
	})
	t.Run("an end while it is broken", func(t *testing.T) {
		p.ask(t, "break api")
		p.ask(t, "break agent b")
	})
	if told := p.told.String(); strings.Contains(told, "nil") || strings.Count(told, "\n") != strings.Count(told, " starts it again in ") {
		t.Errorf("not a sentence for each death:\n%s", told)
	}
}
