package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// obeyingConfig leaves everything to Berth; CPUs 0 and 8 are reserved.
const obeyingConfig = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
reservedSystemCPUs: "0,8"
`

// obeyingNode makes a node carry out Berth's decisions.
func obeyingNode(s *hollow.Spec) {
	s.NRI, s.KubeletConfig, s.StopTime = true, obeyingConfig, 100*time.Millisecond
}

// ask returns a pod of one container that asks for CPUs, with annotations "key=value".
func ask(name, cpu string, guaranteed bool, annotations ...string) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}
	r := corev1.ResourceRequirements{Requests: list}
	if guaranteed {
		r.Limits = list
	}
	zero := int64(0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &zero, Containers: []corev1.Container{{Name: "main", Image: "pause", Resources: r}}}}
	for _, a := range annotations {
		key, value, _ := strings.Cut(a, "=")
		p.Annotations[key] = value
	}
	return p
}

// withInit adds an init container and a sidecar that ask for a CPU each.
func withInit(p *corev1.Pod) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	one := p.Spec.Containers[0].Resources.DeepCopy()
	for _, list := range []corev1.ResourceList{one.Requests, one.Limits} {
		if list != nil {
			list[corev1.ResourceCPU] = resource.MustParse("1")
		}
	}
	p.Spec.InitContainers = []corev1.Container{
		{Name: "side", Image: "pause", RestartPolicy: &always, Resources: *one},
		{Name: "init", Image: hollow.ExitImage(200 * time.Millisecond), Resources: *one},
	}
	return p
}

// cgroup has the CPUs and memory nodes of a container.
type cgroup struct {
	pod, container string
	cpus           topology.CPUSet
}

// cgroups reads the cgroups of all containers on the node.
func (n *hollowNode) cgroups() (all []cgroup) {
	n.c.Helper()
	root := os.DirFS(n.dir.Cgroups())
	err := fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) != "cpuset.cpus.effective" || err != nil {
			return nil //nolint:nilerr // a container whose files vanish has ended
		}
		text, err := fs.ReadFile(root, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		n.c.must(err)
		set, err := topology.ParseCPUList(strings.TrimSpace(string(text)))
		n.c.must(err)
		parts := strings.Split(path, "/") // kubepods, UID, NAME-ATTEMPT, file
		all = append(all, cgroup{parts[1], parts[2][:strings.LastIndex(parts[2], "-")], set})
		return nil
	})
	n.c.must(err)
	return all
}

// obeyedProblem describes a container that does not run as its Binding says; "" for none. A running
// pod must have a cgroup for each running container.
func (c *hollowCluster) obeyedProblem(pods []corev1.Pod) string {
	for _, n := range c.nodes {
		if !n.spec.NRI {
			continue // the node's kubelet decides
		}
		groups := n.cgroups()
		var pinned topology.CPUSet
		decisions := map[string]*placement.Decision{}
		for i := range pods {
			if pods[i].Spec.NodeName != n.spec.Name {
				continue
			}
			p, found, err := wire.ReadPlacement(&pods[i])
			c.must(err)
			if found && p.Certainty != wire.Exact {
				return pods[i].Name + " has no exact decision"
			}
			decisions[string(pods[i].UID)] = &p.Decision
			if pods[i].Status.Phase == corev1.PodRunning && !slices.ContainsFunc(groups, func(g cgroup) bool { return g.pod == string(pods[i].UID) }) {
				return pods[i].Name + " runs and has no cgroup"
			}
		}
		for _, g := range groups {
			if d := decidedFor(decisions, g); d != nil && !d.CPUs.IsEmpty() {
				if g.cpus != d.CPUs {
					return fmt.Sprintf("%s/%s runs on %s, decided were %s", g.pod, g.container, g.cpus, d.CPUs)
				}
				pinned = pinned.Or(&g.cpus)
			}
		}
		machine, err := topology.Parse(n.spec.Machine)
		c.must(err)
		for _, g := range groups {
			d := decidedFor(decisions, g)
			switch {
			case d != nil && !d.CPUs.IsEmpty():
			case g.cpus.IsEmpty():
				return fmt.Sprintf("%s/%s is unconfined", g.pod, g.container)
			case g.cpus.Intersects(&pinned):
				return fmt.Sprintf("%s/%s is shared and runs on %s, of which %s are pinned", g.pod, g.container, g.cpus, g.cpus.And(&pinned))
			case d != nil && d.Bounds&placement.BoundCPUs != 0:
				for _, s := range d.Shares {
					if node := machine.NUMANode(s.NUMA); !g.cpus.IsSubsetOf(&node.CPUs) {
						return fmt.Sprintf("%s/%s runs on %s, beside NUMA node %d", g.pod, g.container, g.cpus, s.NUMA)
					}
				}
			}
		}
	}
	return ""
}

func decidedFor(all map[string]*placement.Decision, g cgroup) *placement.ContainerDecision {
	if d := all[g.pod]; d != nil {
		for i := range d.Containers {
			if d.Containers[i].Name == g.container {
				return &d.Containers[i]
			}
		}
	}
	return nil
}

// awaitObeyed waits until all containers run as their Bindings say.
func (c *hollowCluster) awaitObeyed(when string) {
	c.Helper()
	last := ""
	defer func() {
		if c.Failed() {
			c.Logf("%s: %s", when, last)
		}
	}()
	c.await(when+": everything runs as decided", func(pods []corev1.Pod) bool {
		last = c.obeyedProblem(pods)
		return last == ""
	})
}

// TestObeyingNodes runs pods on nodes where Berth decides, with a genuine kubelet without managers,
// NRI's genuine adaptation and the agent's plugin. Pods with CPU sets and CPU shares of every
// policy run as their Bindings say, also after restarts. No container starts while the agent is
// down.
func TestObeyingNodes(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, 2, controlplane.Options{Dir: shortDir(t)}, obeyingNode)
	var names []string
	start := func(pods ...*corev1.Pod) {
		t.Helper()
		for _, p := range pods {
			names = append(names, c.create(p).Name)
		}
	}
	foreign := ask("foreign", "500m", false)
	foreign.Spec.NodeName = "h0"
	start(foreign)
	for i, policy := range []string{"none", "best-effort", "restricted", "single-numa-node", "single-numa-node,scope=pod"} {
		start(ask(fmt.Sprint("set", i), "2", true, wire.PolicyAnnotation+"="+policy),
			withInit(ask(fmt.Sprint("share", i), "300m", false, wire.PolicyAnnotation+"="+policy)))
	}
	start(withInit(ask("inits", "1", true, wire.PolicyAnnotation+"=single-numa-node,scope=pod")),
		ask("cores", "2", true, wire.CPUsAnnotation+"=full-cores", wire.ExclusiveAnnotation+"=core"),
		ask("plain", "200m", false))
	c.awaitRunning(names...)
	c.awaitObeyed("at first")

	n := c.nodes[0]
	n.stopAgent()
	late := onNode(ask("late", "1", true), "h0")
	start(late)
	c.awaitBound("late")
	held := func(pods []corev1.Pod) bool {
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == "late" })
		s := pods[i].Status.ContainerStatuses
		return len(s) == 1 && s[0].State.Waiting != nil && strings.Contains(s[0].State.Waiting.Message, wire.PluginName)
	}
	c.await("late to be held while the agent is away", held)
	n.startAgent()
	c.awaitRunning(names...)
	c.awaitObeyed("after the agent's restart")

	c.restartScheduler(nil)
	start(ask("after", "1", true, wire.PolicyAnnotation+"=restricted"))
	c.awaitRunning(names...)
	c.awaitObeyed("after the scheduler's restart")

	n.restart()
	c.must(n.process().WaitReady(t.Context(), c.Client))
	c.awaitObeyed("after the node's restart")
	c.awaitRunning(names...)
	c.demandKept()

	c.delete("set0", nil)
	c.delete("cores", nil)
	c.await("room", func(pods []corev1.Pod) bool {
		return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == "cores" })
	})
	c.create(ask("again", "2", true, wire.PolicyAnnotation+"=single-numa-node"))
	c.awaitRunning("again")
	c.awaitObeyed("after others have left")
	c.clean()
}
