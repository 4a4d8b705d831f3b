package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/test/trial"
	"github.com/berth-dev/berth/topology"
)

// patience bounds every wait for a condition. An emulated machine on a busy host is slow.
const patience = 6 * time.Minute

// cluster is the control plane and the machines that joined it.
type cluster struct {
	*trial.Cluster
	t         *testing.T
	artifacts *Artifacts
	dir       string
	// Machines that boot from now on get kernelArgs and plugins. Each line of plugins has the flags
	// of a device plugin. preferences tells the agent how the plugins choose.
	kernelArgs, plugins, preferences string
	// pci gives PCI devices to machines that boot from now on.
	pci bool
	// agentFlags are added to the flags of their agents.
	agentFlags string
	// These machines also get files and archive.
	files   map[string][]byte
	archive string
}

// newCluster starts a control plane. If the test fails, the files of control plane and machines are
// kept.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newPlainCluster(t, controlplane.Options{}, deploy.Manifests()...)
}

// newPlainCluster starts a control plane with only these manifests.
func newPlainCluster(t *testing.T, options controlplane.Options, manifests ...[]byte) *cluster {
	t.Helper()
	c := &cluster{t: t, artifacts: ensure(t), dir: filepath.Join(repoRoot, "_artifacts", "vm", t.Name())}
	if err := errors.Join(os.RemoveAll(c.dir), os.MkdirAll(c.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	var err error
	c.Cluster, err = trial.Start(t.Context(), demo.ClusterOptions{ControlPlane: options, Manifests: manifests})
	t.Cleanup(func() {
		if t.Failed() {
			c.keepSchedulers()
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// node boots a machine with an agent, and waits until its Node is Ready.
func (c *cluster) node(name string, shape Shape, settings KubeletSettings) *Machine {
	c.t.Helper()
	m := c.machine(name, shape, settings)
	c.admitAgent(m)
	return m
}

// machine boots a machine and waits until its Node is Ready.
func (c *cluster) machine(name string, shape Shape, settings KubeletSettings) *Machine {
	c.t.Helper()
	files, err := joinFiles(c.ControlPlane, name, settings)
	if err != nil {
		c.t.Fatal(err)
	}
	maps.Copy(files, c.files)
	if c.plugins != "" {
		files["plugins"] = []byte(c.plugins)
		files["agent.sh"] = bytes.ReplaceAll(files["agent.sh"], []byte("--kubelet-config="), []byte("--device-preferences="+c.preferences+" --kubelet-config="))
	}
	if c.agentFlags != "" {
		files["agent.sh"] = bytes.ReplaceAll(files["agent.sh"], []byte("--kubelet-config="), []byte(c.agentFlags+" --kubelet-config="))
	}
	port, err := apiPort(c.ControlPlane)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	began := time.Now()
	m, err := c.artifacts.Boot(ctx, Config{Name: name, Shape: shape, APIPort: port, Files: files, Dir: c.dir, KernelArgs: c.kernelArgs, Archive: c.archive, PCI: c.pci})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.keep(m)
		}
		m.Stop()
	})
	c.eventually("node "+name+" is Ready", func(ctx context.Context) error { return c.ready(ctx, name) })
	c.t.Logf("machine %s (%s) is Ready %.0f s after its start", name, shape, time.Since(began).Seconds())
	return m
}

// admitAgent gives the guest's agent a token, as the kubelet gives one to a DaemonSet's pod.
func (c *cluster) admitAgent(m *Machine) {
	c.t.Helper()
	config, err := c.ControlPlane.TokenConfig(c.t.Context(), "berth-system", "berth-agent", m.Name)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := guestAccess(config)
	if err != nil {
		c.t.Fatal(err)
	}
	script := "cat > /tmp/agent <<'END'\n" + string(text) + "END\nmv /tmp/agent " + agentCredentials
	if _, err := m.Guest.Run(c.t.Context(), script); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) ready(ctx context.Context, name string) error {
	node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			if cond.Status == corev1.ConditionTrue {
				return nil
			}
			return fmt.Errorf("not Ready: %s", cond.Message)
		}
	}
	return fmt.Errorf("no Ready condition yet")
}

// keep saves the files of a machine that explain a failure.
func (c *cluster) keep(m *Machine) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, f := range []string{"/var/log/kubelet.log", "/var/log/containerd.log", "/var/log/agent.log", "/var/log/plugins.log", "/var/log/driver.log", "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"} {
		out, _ := m.Guest.Run(ctx, "cat "+f)
		_ = os.WriteFile(filepath.Join(c.dir, m.Name+"-"+filepath.Base(f)), []byte(out), 0o644)
	}
	c.t.Logf("console, logs and checkpoints of %s are kept in %s", m.Name, c.dir)
}

// keepSchedulers saves the schedulers' logs.
func (c *cluster) keepSchedulers() {
	for _, p := range c.Parts {
		log := p.Process().Log
		text, _ := os.ReadFile(log)
		_ = os.WriteFile(filepath.Join(c.dir, filepath.Base(log)), text, 0o644)
	}
}

// eventually polls until check succeeds or patience ends.
func (c *cluster) eventually(what string, check func(context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var last error
	if !trial.Until(ctx, 200*time.Millisecond, func() bool {
		c.schedulersRun()
		err := check(ctx)
		if last == nil || ctx.Err() == nil { // an error because patience has ended explains nothing
			last = err
		}
		return err == nil
	}) {
		c.t.Fatalf("waited %s for: %s; last: %v", patience, what, last)
	}
}

// eventuallyProgress polls until left returns 0. patience starts again whenever the number falls.
func (c *cluster) eventuallyProgress(what string, left func(context.Context) (int, error)) {
	c.t.Helper()
	for least := -1; ; {
		now := -1
		c.eventually(what, func(ctx context.Context) error {
			n, err := left(ctx)
			if err != nil || least >= 0 && n >= least && n > 0 {
				return errors.Join(err, fmt.Errorf("%d left", n))
			}
			now = n
			return nil
		})
		if least = now; least == 0 {
			return
		}
	}
}

// pinnedPod is a Guaranteed pod of one container that asks for whole CPUs and runs until it is
// deleted.
func pinnedPod(name string, cpus int) *corev1.Pod {
	grace := int64(5)
	no := false
	amounts := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("32Mi"),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			HostNetwork: true, AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "c", Image: Image, ImagePullPolicy: corev1.PullNever, Resources: corev1.ResourceRequirements{Limits: amounts, Requests: amounts}}},
		},
	}
}

// mortal makes a pod able to end by itself, so that the CPUs of later pods are uncertain.
func mortal(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return pod
}

// running waits until the pod runs, and fails at once if its kubelet refuses it.
func (c *cluster) running(name string) *corev1.Pod {
	c.t.Helper()
	var pod *corev1.Pod
	c.eventually("pod "+name+" runs", func(ctx context.Context) error {
		p, err := c.Client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.Phase == corev1.PodFailed {
			c.t.Fatalf("pod %s on %s: %s: %s", name, p.Spec.NodeName, p.Status.Reason, p.Status.Message)
		}
		if pod = p; p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s", p.Status.Phase)
		}
		return nil
	})
	return pod
}

// confinement has the kernel's data about a container's process, with which all promises are
// compared.
type confinement struct {
	CPUs topology.CPUSet
	Mems topology.NUMASet
}

// confined reads /proc/PID/status of the container's first process in the guest.
func (c *cluster) confined(m *Machine, pod *corev1.Pod, container string) confinement {
	c.t.Helper()
	id := ""
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			_, id, _ = strings.Cut(s.ContainerID, "://")
		}
	}
	if id == "" {
		c.t.Fatalf("pod %s has no id for container %s", pod.Name, container)
	}
	out, err := m.Guest.Run(c.t.Context(), `for p in $(grep -l `+id+` /proc/[0-9]*/cgroup | cut -d/ -f3 | sort -n | head -1); do grep _allowed_list /proc/$p/status; done`)
	if err != nil {
		c.t.Fatal(err)
	}
	var got confinement
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		var err error
		switch key {
		case "Cpus_allowed_list":
			got.CPUs, err = topology.ParseCPUList(value)
		case "Mems_allowed_list":
			got.Mems, err = topology.ParseNUMAList(value)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if got.CPUs.IsEmpty() {
		c.t.Fatalf("no process of container %s of pod %s in the guest: %q", container, pod.Name, out)
	}
	return got
}
