package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/controlplane"
)

// TestRestore restores the API server's data from a backup while scheduler, agent and kubelet run.
// Later Bindings are gone, and the kubelet takes a while to release their pods. No pod is placed
// there before the agent has reported the release.
func TestRestore(t *testing.T) {
	t.Parallel()
	c := newHollowClusterOn(t, 1, controlplane.Options{Server: otherServer, Keep: shortDir(t)})
	c.create(pinnedPod("before", "", "6")) // fills NUMA node 0; 8 CPUs of node 1 are left
	c.awaitRunning("before")
	c.awaitGauges() // the scheduler has read the report that lists the pod
	backup := c.backUp()

	c.create(pinnedPod("since", "", "8"))
	c.awaitRunning("since")
	c.awaitGauges()
	agent := c.nodes[0].agent()
	agent.set(func(*http.Request) fault { return lostRequest }) // so that the agent is the last to reconnect
	c.restore(backup)

	c.create(pinnedPod("after", "", "8"))
	tried := types.UID("")
	c.await("the scheduler not to rely on a report from before", func(pods []corev1.Pod) bool {
		why := unschedulable(pods, "after")
		if strings.Contains(why, "its report is older than the one before") {
			return true
		}
		// The scheduler may have tried this pod before it listed the reports again. The list makes
		// no room, so the pod is not tried again.
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == "after" })
		if why != "" && i >= 0 && pods[i].UID != tried {
			tried = pods[i].UID
			uid := tried
			c.must(c.Client.CoreV1().Pods("default").Delete(c.Context(), "after",
				metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &uid}}))
			c.create(pinnedPod("after", "", "8"))
		}
		return false
	})
	agent.set(func(*http.Request) fault { return noFault })
	c.awaitRunning("before", "after")
	c.await("what was bound since to be gone", func(pods []corev1.Pod) bool {
		for i := range pods {
			c.note(&pods[i]) // the test's own watch may not have reconnected yet
		}
		return phaseOf(pods, "since") == ""
	})
	if sum := c.demandKept(); sum.exact < 2 {
		t.Errorf("%d pods were compared with what was promised, want 2 at least", sum.exact)
	}
	c.clean()
}

// stopControlPlane stops the control plane and returns the directory of etcd's data.
func (c *hollowCluster) stopControlPlane() string {
	c.Helper()
	c.must(c.ControlPlane.Stop())
	return filepath.Join(c.kept.Keep, "etcd", "data")
}

func (c *hollowCluster) startControlPlane() {
	c.Helper()
	var err error
	c.ControlPlane, err = controlplane.Start(c.Context(), c.kept)
	c.must(err)
}

// backUp copies the API server's data.
func (c *hollowCluster) backUp() (dir string) {
	c.Helper()
	data, dir := c.stopControlPlane(), filepath.Join(c.TempDir(), "backup")
	c.must(os.CopyFS(dir, os.DirFS(data)))
	c.startControlPlane()
	return dir
}

// restore restores a copy. As with etcdutl snapshot restore --bump-revision --mark-compacted,
// revisions continue above all earlier ones, and earlier revisions are compacted, so that watches
// list again.
func (c *hollowCluster) restore(backup string) {
	c.Helper()
	list, err := c.Client.CoreV1().ConfigMaps("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	revision, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
	c.must(err)
	data := c.stopControlPlane()
	c.must(os.RemoveAll(data))
	c.must(os.CopyFS(data, os.DirFS(backup)))

	etcd, err := controlplane.StartEtcd(c.Context(), c.kept.Keep, nil)
	c.must(err)
	defer c.startControlPlane()
	defer etcd.Stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.URL()}, Context: c.Context()})
	c.must(err)
	defer client.Close()
	const inBetween = 1000 // more than were written after the list
	for written := int64(0); written < revision+inBetween; {
		answer, err := client.Put(c.Context(), "/bump", "")
		c.must(err)
		written = answer.Header.Revision
		if written >= revision+inBetween {
			_, err = client.Compact(c.Context(), written)
			c.must(err)
		}
	}
}
