package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
)

// TestAbove places pods like those of Kueue, JobSet, LeaderWorkerSet and KubeRay
// (docs/dialects.md). Each gets the promised CPUs.
func TestAbove(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, 2, controlplane.Options{Server: otherServer, Dir: shortDir(t)})
	for _, step := range []struct {
		name string
		do   func(*hollowCluster)
	}{{"Kueue", queued}, {"JobSet", exclusiveJobs}, {"LeaderWorkerSet", leaderAndWorker}, {"KubeRay", headAndWorker}} {
		t.Run(step.name, func(t *testing.T) {
			c.T = t
			defer func() { c.T = c.root }()
			step.do(c)
		})
	}
	// If reports come in time, seven placements are exact. On a busy machine most promise only a
	// verdict, which is no fault. Without any exact placement, no CPUs were compared.
	if sum := c.demandKept(); sum.exact < 1 {
		t.Error("no pod was compared with what was promised")
	}
}

// queued: a gated pod takes no resources. After its admission, which adds a node selector and
// removes the gate, it gets a selected node.
func queued(c *hollowCluster) {
	c.createAbove("kueue")
	c.await("the gated pod to wait", func(pods []corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.Name == "kueue" && slices.ContainsFunc(p.Status.Conditions, func(cond corev1.PodCondition) bool {
				return cond.Reason == corev1.PodReasonSchedulingGated
			})
		})
	})
	// These take all CPUs of both nodes, because a gated pod holds none.
	full := []string{"h0-a", "h0-b", "h1-a", "h1-b"}
	for _, name := range full {
		cpus := map[bool]string{true: "6", false: "8"}[strings.HasSuffix(name, "a")]
		c.create(onNode(pinnedPod(name, "", cpus), name[:2]))
	}
	c.awaitRunning(full...)
	c.delete("h1-a", nil)
	admit := `{"spec":{"schedulingGates":[],"nodeSelector":{"kubernetes.io/hostname":"h1"}}}`
	_, err := c.Client.CoreV1().Pods("default").Patch(c.Context(), "kueue", types.MergePatchType, []byte(admit), metav1.PatchOptions{})
	c.must(err)
	c.awaitRunning("kueue")
	if got := c.nodeOf("kueue"); got != "h1" {
		c.Errorf("the pod runs on %s, its queue wanted h1", got)
	}
	for _, name := range []string{"h0-a", "h0-b", "h1-b"} {
		c.delete(name, nil)
	}
	// Kueue removes its finalizer when the pod has ended.
	_, err = c.Client.CoreV1().Pods("default").Patch(c.Context(), "kueue", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	c.must(err)
	c.delete("kueue", nil)
}

// exclusiveJobs: jobs that exclude each other from their nodes get one node each.
func exclusiveJobs(c *hollowCluster) {
	names := c.createAbove("jobset")
	c.awaitRunning(names...)
	if a, b := c.nodeOf("jobset-a"), c.nodeOf("jobset-b"); a == b {
		c.Errorf("both jobs run on %s", a)
	}
	c.deleteAll(names)
}

func leaderAndWorker(c *hollowCluster) {
	names := c.createAbove("leaderworkerset")
	c.awaitRunning(names...)
	c.deleteAll(names)
}

func headAndWorker(c *hollowCluster) {
	names := c.createAbove("kuberay")
	c.awaitRunning(names...)
	c.deleteAll(names)
}

// createAbove creates the pods of a file, whose init containers end, and returns their names.
func (c *hollowCluster) createAbove(file string) (names []string) {
	c.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "above", file+".yaml"))
	c.must(err)
	for _, text := range strings.Split(string(data), "\n---\n") {
		pod := &corev1.Pod{}
		c.must(yaml.UnmarshalStrict([]byte(text), pod))
		for i := range pod.Spec.InitContainers {
			pod.Spec.InitContainers[i].Image = hollow.ExitImage(100 * time.Millisecond)
		}
		c.create(pod)
		names = append(names, pod.Name)
	}
	return names
}

func (c *hollowCluster) nodeOf(name string) string {
	c.Helper()
	return c.pod(name).Spec.NodeName
}

func (c *hollowCluster) deleteAll(names []string) {
	c.Helper()
	for _, name := range names {
		c.delete(name, nil)
	}
}
