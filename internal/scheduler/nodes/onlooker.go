package nodes

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
)

// Onlooker receives events about pods that another scheduler places. A process whose Feed has an
// Onlooker places no pods itself.
type Onlooker interface {
	// Reported is called with the object of a report before the report is accepted.
	Reported(metav1.Object, *nodestate.Reading)
	// ReportGone is called when a node no longer has a report.
	ReportGone(node string)
	// Alive is called when a report or a heartbeat shows that a node's newest report is still
	// valid. The parameter by is that report or heartbeat; a client other than the agent may have
	// written it.
	Alive(node string, by metav1.Object)
	// Bound is called when a pod was bound to a node, with the expected answer of the node's
	// kubelet.
	Bound(*corev1.Pod, *Node, *ledger.Expectation)
	// Foreseen is called with the expectation for a pod if the expectation was not possible at the
	// pod's Binding, but became possible with a later report.
	Foreseen(*Node, *ledger.Foreseen)
	// Settled is called with the outcome of an expectation, or of another scheduler's promise.
	Settled(node string, o *ledger.PromiseOutcome)
}

// witness tells the Onlooker about a Binding that the watch has just shown. If the pod has a
// decision of Berth, the expectation is that decision. Otherwise the account predicts the kubelet's
// answer and records the pod, and witness returns true.
func (f *Feed) witness(pod *corev1.Pod, n *Node, s *nodestate.Sighting) bool {
	if s.Inherited || s.Ending() || wire.Admitted(pod) || n.account.View().Knows(s.UID) {
		return false
	}
	if s.Promise != nil {
		e := ledger.Expectation{Answer: ledger.Answer{Outcome: ledger.Admitted, Exact: s.Promise.Exact}, Decision: s.Promise.Decision}
		f.Onlooker.Bound(pod, n, &e)
		return false
	}
	s.After = n.reportedBefore(pod)
	e, first := n.account.Witness(&s.Sighting)
	if first {
		f.Onlooker.Bound(pod, n, &e)
	}
	return first
}

// reportedBefore reports whether the node's accepted report was written before this version of the
// pod. It compares resource versions, which are revisions of etcd that grow with every write.
// Kubernetes guarantees this order only within one resource. So pods and reports must be in the
// same etcd.
func (n *Node) reportedBefore(pod *corev1.Pod) bool {
	n.mu.RLock()
	version := n.version
	n.mu.RUnlock()
	newer, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, version)
	return err == nil && newer > 0
}

// answered records the kubelet's answer, if the pod's status shows one. It returns true if the
// kubelet has refused the pod, which then needs no further handling.
func (f *Feed) answered(pod *corev1.Pod) (over bool) {
	refused := wire.Refused(pod)
	n := f.Table.Known(pod.Spec.NodeName)
	if n == nil || !refused && !wire.Admitted(pod) {
		return false
	}
	f.settle(n, n.account.Answered(string(pod.UID), !refused))
	return refused
}

// foresee tells the Onlooker about expectations that were not possible before the last event of the
// node.
func (f *Feed) foresee(n *Node) {
	if f.Onlooker == nil {
		return
	}
	for _, e := range n.account.Foresee() {
		f.Onlooker.Foreseen(n, &e)
	}
}

// early reports whether a report lists pods that the watch of pods has not shown on the node yet,
// because it may be slower than the watch of reports. If the report were used at once, there would
// be no expectation for these pods.
func (f *Feed) early(o metav1.Object) bool {
	n := f.Table.Known(o.GetName())
	if n == nil {
		return false
	}
	view := n.account.View()
	last := view.Report()
	return last != nil && nodestate.Lists(o, func(uid string) bool { return !last.Has(uid) && !view.Knows(uid) })
}
