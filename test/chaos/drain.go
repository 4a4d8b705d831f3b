package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/scrape"
)

// Limits for the end of a run. A new leader waits a minute for unfinished writes of its
// predecessor.
const (
	settleLimit = 100 * time.Second
	goneLimit   = 60 * time.Second
)

// finish checks the cluster after the faults: pods that fit run, and deleted pods leave nothing
// behind.
func (d *driver) finish(ctx context.Context) error {
	fmt.Fprintln(d.out, "faults are over: every pod that fits must run")
	d.until(ctx, settleLimit, "", func() string { return d.unsettled(ctx) })
	if err := d.judgeOutcomes(time.Now()); err != nil || d.book.count() > 0 {
		return err // later errors would only be consequences
	}
	fmt.Fprintln(d.out, "all pods are deleted: nothing may be left")
	err := d.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return err
	}
	d.until(ctx, goneLimit, "", func() string { return d.remaining(ctx) })
	if err := d.probe(ctx); err != nil {
		return err
	}
	d.until(ctx, settleLimit, "", func() string { return d.shadowLeft(ctx) })
	d.judgeMistakes(time.Now())
	if found := sum(d.shadow.before, d.shadow.last.Total); found.Judged == 0 {
		d.book.violate("shadow mode has judged nothing", "")
	}
	fmt.Fprintln(d.out, "the scheduler's gauges must be 0")
	return d.ledger(ctx)
}

// until waits until wrong returns "". If that takes longer than limit, it records a violation with
// the last answer.
func (d *driver) until(ctx context.Context, limit time.Duration, node string, wrong func() string) {
	clock := time.NewTicker(500 * time.Millisecond)
	defer clock.Stop()
	end := time.Now().Add(limit)
	calm, ticks := 0, 0
	text := ""
	for time.Now().Before(end) && ctx.Err() == nil {
		if text = wrong(); text == "" {
			calm++
		} else {
			calm = 0
		}
		if calm == 4 {
			return
		}
		if ticks++; ticks%20 == 0 && text != "" {
			fmt.Fprintf(d.out, "waiting: %.300s\n", text)
		}
		if err := d.settleDue(time.Now()); err != nil {
			text = err.Error()
			break
		}
		<-clock.C
	}
	if ctx.Err() == nil && text != "" {
		d.book.violate(fmt.Sprintf("after %v: %s", limit, text), node)
	}
}

// unsettled names pods that should run and do not; "" if there are none.
func (d *driver) unsettled(ctx context.Context) string {
	list, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	nodes, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	gangs := gangsOf(list.Items)
	out := d.observer.partial(gangs)
	for i := range list.Items {
		p := &list.Items[i]
		switch {
		case gangs[p.Labels[gangLabel]].waits():
		case p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending || p.Labels[foreignLabel] != "":
		case p.Spec.NodeName != "":
			out = append(out, fmt.Sprintf("pod %s is bound to %s and does not run", p.Name, p.Spec.NodeName))
		default:
			for k := range nodes.Items {
				if d.fits(p, &nodes.Items[k], list.Items) {
					out = append(out, fmt.Sprintf("pod %s is pending and fits %s: %s", p.Name, nodes.Items[k].Name, conditionOf(p)))
					break
				}
			}
		}
	}
	return strings.Join(out, "; ")
}

func conditionOf(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return "no condition"
}

// fits reports whether the pod fits the node by amounts and by the node's report.
func (d *driver) fits(p *corev1.Pod, node *corev1.Node, all []corev1.Pod) bool {
	left := node.Status.Allocatable.DeepCopy()
	for i := range all {
		other := &all[i]
		if other.Spec.NodeName == node.Name && other.Status.Phase != corev1.PodFailed && other.Status.Phase != corev1.PodSucceeded {
			subtract(left, resource.PodRequests(other, resource.PodResourcesOptions{}))
		}
	}
	subtract(left, resource.PodRequests(p, resource.PodResourcesOptions{}))
	for _, q := range left {
		if q.Sign() < 0 {
			return false
		}
	}
	return d.admits(p, node.Name)
}

func subtract(left, requests corev1.ResourceList) {
	for name, q := range requests {
		have := left[name]
		have.Sub(q)
		left[name] = have
	}
}

// admits asks the engine about the node's last report.
func (d *driver) admits(p *corev1.Pod, node string) bool {
	d.mu.Lock()
	nt := d.reports[node]
	d.mu.Unlock()
	if nt == nil {
		return false
	}
	n, err := wire.ReadNodeTopology(nt)
	if err != nil {
		return false
	}
	n.Spec.Config.GuardDefects = true
	m, err := placement.NewModel(n.Spec.View, n.Spec.Config)
	if err != nil {
		return false
	}
	s, err := m.StateOf(&n.Report.Snapshot)
	if err != nil {
		return false
	}
	ask, err := wire.ReadPod(p)
	return err == nil && placement.Admit(s, &ask.Request).Reason == placement.Admitted
}

// remaining describes the pods that are left; "" if there are none.
func (d *driver) remaining(ctx context.Context) string {
	list, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	if len(list.Items) == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods are not gone, %s among them", len(list.Items), list.Items[0].Name)
}

// probe admits one more pod on each node, because a kubelet removes the remains of other pods only
// then.
func (d *driver) probe(ctx context.Context) error {
	for i := range d.specs {
		node := d.specs[i].Name
		plan := &PodPlan{Name: "probe-" + node, CPUs: []int64{2}, MemoryMi: 64}
		if len(d.specs[i].Plugins) > 0 {
			plan.GPUs = 1 // the Device Manager removes stale allocations only when it allocates
		}
		p := plan.object()
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		if _, err := d.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range d.specs {
		node := d.specs[i].Name
		d.until(ctx, settleLimit, node, func() string { return d.leaked(ctx, node) })
	}
	err := d.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return err
	}
	d.until(ctx, goneLimit, "", func() string { return d.remaining(ctx) })
	return nil
}

// leaked describes resources of other pods than the probe on the node, by its checkpoints and its
// report.
func (d *driver) leaked(ctx context.Context, node string) string {
	probe, err := d.client.CoreV1().Pods(namespace).Get(ctx, "probe-"+node, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if probe.Status.Phase != corev1.PodRunning {
		return "pod " + probe.Name + " does not run: " + string(probe.Status.Phase) + " " + conditionOf(probe)
	}
	uid := string(probe.UID)
	for _, left := range []func(node, but string) string{d.leftInCheckpoints, d.leftInCgroups, d.leftInReport} {
		if text := left(node, uid); text != "" {
			return text
		}
	}
	return ""
}

// leftInCheckpoints describes the resources of another pod on the node, or "".
func (c *cluster) leftInCheckpoints(node, but string) string {
	state, err := kubeletstate.Read(os.DirFS(c.nodeDir(node).Root()))
	if err != nil {
		return err.Error()
	}
	snap, err := state.Snapshot()
	if err != nil {
		return err.Error()
	}
	for _, p := range snap.Pods {
		if p.UID != but {
			return fmt.Sprintf("node %s: the checkpoints still hold %+v", node, p)
		}
	}
	return ""
}

// leftInReport returns another pod that the node's report still has, or reports that the probe is
// missing.
func (o *observer) leftInReport(node, but string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	nt := o.reports[node]
	for _, p := range nt.Status.Pods {
		if p.UID != but {
			return fmt.Sprintf("node %s: report %d still has %+v", node, nt.Status.Sequence, p)
		}
	}
	if len(nt.Status.Pods) != 1 {
		return fmt.Sprintf("node %s: report %d does not have the probe", node, nt.Status.Sequence)
	}
	return ""
}

// ledger reads the remaining counts of the last scheduler. The other scheduler is stopped first,
// because only the leader has the counts.
func (d *driver) ledger(ctx context.Context) error {
	d.procs["scheduler-1"].Kill()
	d.until(ctx, settleLimit, "", func() string {
		m, err := scrape.Scheduler(d.procs["scheduler-0"].Port)
		if err != nil {
			return err.Error()
		}
		return scrape.Left(m, scrape.Held...)
	})
	return nil
}
