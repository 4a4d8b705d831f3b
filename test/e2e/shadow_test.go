package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/cli"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/scheduler/witness"
	"github.com/berth-dev/berth/internal/shadow"
)

// shadowCase is a node with a pod that another scheduler binds there.
type shadowCase struct {
	// first changes the node before its first report; nil for no report.
	first func(*cliNode)
	// then changes the pod or the node after shadow mode has seen the Binding.
	then func(*shadowCluster, *cliNode, *corev1.Pod)
	want shadow.Reason // "": the prediction comes true
}

// shadowCluster has an API server, shadow mode with its own rights, and nodes that the test
// imitates.
type shadowCluster struct{ *cliCluster }

// running makes the kubelet admit the pod, and the API show this.
func (c *shadowCluster) running(n *cliNode, pod *corev1.Pod) {
	c.Helper()
	n.admit(c.T, pod, 1)
	now := metav1.Now()
	c.status(pod, corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Image: "app:1"}}})
}

// refused makes the kubelet refuse the pod, and the API show this.
func (c *shadowCluster) refused(pod *corev1.Pod) {
	c.Helper()
	c.status(pod, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError", Message: "Pod was rejected: Resources cannot be allocated"})
}

func (c *shadowCluster) status(pod *corev1.Pod, s corev1.PodStatus) {
	c.Helper()
	now, err := c.api.CoreV1().Pods(pod.Namespace).Get(c.Context(), pod.Name, metav1.GetOptions{})
	if err == nil {
		s.QOSClass = now.Status.QOSClass
		now.Status = s
		_, err = c.api.CoreV1().Pods(pod.Namespace).UpdateStatus(c.Context(), now, metav1.UpdateOptions{})
	}
	if err != nil {
		c.Fatal(err)
	}
}

// next makes the node's agent report again.
func (c *shadowCluster) next(n *cliNode) {
	c.Helper()
	n.next()
	c.report(&n.Node)
}

// restarted restarts the node's kubelet, and makes its agent report this.
func (c *shadowCluster) restarted(n *cliNode) {
	c.Helper()
	n.Report.KubeletStarted = n.Report.KubeletStarted.Add(time.Minute)
	c.next(n)
}

// labelled adds a label to the agent's NodeTopology.
func (c *shadowCluster) labelled(node string) {
	c.Helper()
	patch := []byte(`{"metadata":{"labels":{"pool":"numa"}}}`)
	_, err := c.reports.Patch(c.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		_, err = c.api.CoordinationV1().Leases(v1alpha1.HeartbeatNamespace).Patch(c.Context(), v1alpha1.HeartbeatName(node), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		c.Fatal(err)
	}
}

// again deletes a node and its report, and creates both again.
func (c *shadowCluster) again(n *cliNode) {
	c.Helper()
	err := errors.Join(c.reports.Delete(c.Context(), n.Name, metav1.DeleteOptions{}), c.api.CoreV1().Nodes().Delete(c.Context(), n.Name, metav1.DeleteOptions{}))
	if err != nil {
		c.Fatal(err)
	}
	c.node(n.Name)
	n.Report.Sequence = 0
	c.next(n)
}

// TestShadowOnDoubtfulNodes: each kind of bad input is named, and counts neither as right nor as
// wrong. A node with good input is judged.
func TestShadowOnDoubtfulNodes(t *testing.T) {
	t.Parallel()
	cases := map[string]shadowCase{
		"good": {first: func(*cliNode) {}, then: func(c *shadowCluster, n *cliNode, pod *corev1.Pod) { c.running(n, pod); c.next(n) }},
		"bare": {then: (*shadowCluster).running, want: shadow.NoAgent},
		"late": {then: func(c *shadowCluster, n *cliNode, pod *corev1.Pod) { c.running(n, pod); c.next(n) }, want: shadow.NoAgent},
		"older": {first: func(n *cliNode) { n.Report.KubeletStarted = time.Time{} },
			then: (*shadowCluster).running, want: shadow.OlderAgent},
		"ahead": {first: func(n *cliNode) { n.Report.Observed = n.Report.Observed.Add(200 * 365 * 24 * time.Hour) },
			then: (*shadowCluster).running, want: shadow.Clocks},
		"behind": {first: func(*cliNode) {}, then: func(c *shadowCluster, n *cliNode, pod *corev1.Pod) {
			c.running(n, pod)
			n.next()
			n.Report.Observed = n.Report.Observed.Add(-time.Hour)
			c.report(&n.Node)
		}, want: shadow.Clocks},
		"unknown": {first: func(n *cliNode) { n.Spec.Config.TopologyManagerPolicy = "restrictd" }, then: (*shadowCluster).running, want: shadow.BadReport},
		"restarted": {first: func(*cliNode) {}, then: func(c *shadowCluster, n *cliNode, pod *corev1.Pod) { c.running(n, pod); c.restarted(n) },
			want: shadow.KubeletRestarted},
		"labelled": {first: func(*cliNode) {}, then: func(c *shadowCluster, n *cliNode, pod *corev1.Pod) {
			c.refused(pod)
			c.labelled(n.Name)
			c.restarted(n)
		}, want: shadow.KubeletRestarted},
		"again": {first: func(*cliNode) {}, then: func(c *shadowCluster, n *cliNode, pod *corev1.Pod) { c.again(n); c.running(n, pod); c.next(n) },
			want: shadow.NoAgent},
		"deleted": {first: func(*cliNode) {}, then: func(c *shadowCluster, _ *cliNode, pod *corev1.Pod) {
			if err := c.api.CoreV1().Pods(pod.Namespace).Delete(c.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				c.Fatal(err)
			}
		}, want: shadow.NeverSeen},
	}
	c := &shadowCluster{&cliCluster{T: t, cp: startControlPlane(t, controlplane.Options{})}}
	if err := c.cp.Apply(t.Context(), deploy.ShadowManifests()...); err != nil {
		t.Fatal(err)
	}
	c.api = kubernetes.NewForConfigOrDie(c.cp.RESTConfig())
	c.reports = dynamic.NewForConfigOrDie(c.cp.RESTConfig()).Resource(v1alpha1.NodeTopologies)
	c.file = filepath.Join(t.TempDir(), "config")
	if err := c.cp.WriteKubeconfig(c.file, controlplane.Admin); err != nil {
		t.Fatal(err)
	}
	nodes, want := map[string]*cliNode{}, map[shadow.Reason]int{}
	for name, one := range cases {
		if one.want != "" {
			want[one.want]++
		}
		n := newCLINode(t, name)
		nodes[name] = n
		n.Report.KubeletStarted = time.Now().Add(-time.Hour)
		c.node(name)
		if one.first == nil {
			continue
		}
		one.first(n)
		c.report(&n.Node)
		now := metav1.NowMicro()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.HeartbeatName(name)}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
		if _, err := c.api.CoordinationV1().Leases(v1alpha1.HeartbeatNamespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	// The agents of this test send no further heartbeats.
	w := witness.New(witness.Options{Client: c.shadowConfig(), Heartbeats: v1alpha1.HeartbeatNamespace, StaleAfter: 2 * patience, SettleAfter: 5 * time.Second,
		Share: 1, Clock: clock.RealClock{}, Logger: klog.Background()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	await := func(what string, done func(*shadow.View) bool) (v shadow.View) {
		eventually(t, what, func() error {
			if v = w.View(); !w.Ready() || !done(&v) {
				return fmt.Errorf("ready: %v, %+v", w.Ready(), v)
			}
			return nil
		})
		return v
	}
	await("shadow mode to be ready", func(*shadow.View) bool { return true })

	pods := map[string]*corev1.Pod{}
	for name := range cases {
		pods[name] = c.pod(name, "2")
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: name}}
		if err := c.api.CoreV1().Pods("default").Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await("all Bindings", func(v *shadow.View) bool { return v.Total.Pods == len(cases) })
	for name, one := range cases {
		one.then(c, nodes[name], pods[name])
	}
	v := await("all answers", func(v *shadow.View) bool { return v.Open == 0 })
	if v.Total.Judged != 1 || v.Total.Exact != 1 || !maps.Equal(v.Total.NotJudged, want) {
		t.Errorf("%+v: want one exact placement, not judged: %v", v.Total, want)
	}
	server := httptest.NewServer(w.Handler())
	defer server.Close()
	c.want(cli.ExitOK, "shadow --url "+server.URL, v.Summary, "the kubelet started between the Binding and its answer", "the node's clock differs")
}

// shadowConfig gives access with the rights of shadow mode.
func (c *shadowCluster) shadowConfig() (config *rest.Config) {
	c.Helper()
	eventually(c.T, "the token of shadow mode", func() (err error) {
		config, err = controlplane.Account{Namespace: "berth-system", Name: "berth-shadow"}.Config(c.Context(), c.cp.RESTConfig(), "")
		return err
	})
	return config
}
