package cli

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// trouble says why a node's word cannot be taken for pods that could be pinned.
type trouble struct {
	// Reason is one word; a report that is not Ready gives that of its condition.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Advice is what a person can do.
	Advice string `json:"advice,omitempty"`
}

// The reasons of a trouble that no report names.
const (
	troubleNoReport    = "NoReport"
	troubleStray       = "NoSuchNode"
	troubleSilent      = "Silent"
	troubleMalformed   = "Malformed"
	troubleUnsupported = "Unsupported"
	troubleOtherForm   = "OtherRelease"
)

// liveNode is a node as the scheduler sees it.
type liveNode struct {
	name   string
	object *corev1.Node // nil where nodes may not be read
	// stray: there is a NodeTopology but no Node.
	stray bool
	// heard is the last sign of life of the agent, zero when there was none.
	heard time.Time

	// spec, report and model are nil where they could not be understood.
	spec   *wire.NodeSpec
	report *wire.Report
	model  *placement.Model
	// account is what the ledger makes of report and pods; nil where there is no report to be relied on.
	account *ledger.Node
	trouble *trouble
	// inFlight counts pods that are bound and in no report yet; lingering those of them that have ended or are being deleted.
	inFlight, lingering int
	// notes say which of its pods could not be understood.
	notes []string
}

// source is what the API says of one node.
type source struct {
	object *corev1.Node           // nil where there is none, or it may not be read
	report *v1alpha1.NodeTopology // nil where there is none
	beat   time.Time              // the agent's last heartbeat, zero where there is none
	pods   []*corev1.Pod          // those that are bound to it
}

// glance is what nodes are looked at with.
type glance struct {
	kinds      *kinds
	nodesKnown bool // Nodes may be read
	silence    silence
}

// at looks at a node.
func (g *glance) at(name string, s *source) *liveNode {
	n := &liveNode{name: name, object: s.object, stray: g.nodesKnown && s.object == nil, heard: s.beat}
	if s.report != nil {
		n.read(s.report, g.kinds)
	}
	n.finish(s.pods, g.silence)
	return n
}

// read takes in what the agent wrote.
func (n *liveNode) read(nt *v1alpha1.NodeTopology, kinds *kinds) {
	if t := written(&nt.ObjectMeta, nt.Status.ObservedTime.Time); t.After(n.heard) {
		n.heard = t
	}
	if err := n.understand(nt, kinds); err != nil {
		n.fail(troubleMalformed, err)
	}
}

// fail notes the first trouble.
func (n *liveNode) fail(reason string, err error) {
	if n.trouble != nil {
		return
	}
	t := trouble{Reason: reason, Message: err.Error()}
	var config *placement.ConfigError
	var ready *wire.NotReadyError
	var other *wire.OtherFormError
	switch {
	case errors.As(err, &other):
		t.Reason = troubleOtherForm
	case errors.As(err, &ready):
		t.Reason = ready.Reason
	case errors.As(err, &config):
		t.Reason = troubleUnsupported
	}
	t.Advice = adviceFor(t.Reason, n.name)
	n.trouble = &t
}

// understand reads as the scheduler does.
func (n *liveNode) understand(nt *v1alpha1.NodeTopology, kinds *kinds) error {
	k := kinds.of(nt)
	n.spec, n.model = k.spec, k.model
	if k.err != nil {
		return k.err
	}
	report, err := wire.ReadReport(nt)
	if err != nil {
		return err
	}
	n.report = &report
	if err := report.CheckReady(); err != nil {
		return err
	}
	if err := wire.CheckReport(n.spec, &report, nt.Name); err != nil {
		return err
	}
	checked, err := ledger.NewReport(report.Sequence, n.model, &report.Snapshot, fatesOf(&report))
	if err != nil {
		return err
	}
	n.account = new(ledger.Ledger).Node(n.name)
	n.account.Replace(checked)
	return nil
}

func fatesOf(r *wire.Report) map[string]ledger.Fate {
	fates := map[v1alpha1.PodState]ledger.Fate{v1alpha1.PodEnded: ledger.Over, v1alpha1.PodRejected: ledger.Rejected, v1alpha1.PodUnknown: ledger.Untold}
	out := map[string]ledger.Fate{}
	for i := range r.Pods {
		if f, ok := fates[r.Pods[i].State]; ok {
			out[r.Snapshot.Pods[i].UID] = f
		}
	}
	return out
}

// silence says when an agent counts as silent.
type silence struct {
	after time.Duration
	told  bool // heartbeats could be read
	now   time.Time
}

// finish says what is wrong besides the report, and takes the pods in.
func (n *liveNode) finish(pods []*corev1.Pod, q silence) {
	switch {
	case n.stray:
		n.trouble = nil
		n.fail(troubleStray, fmt.Errorf("there is a NodeTopology but no Node %s", n.name))
	case n.trouble == nil && n.report == nil:
		n.fail(troubleNoReport, errors.New(wire.NoReport))
	case q.told && q.now.Sub(n.heard) > q.after:
		n.fail(troubleSilent, errors.New(wire.NoSignOfLife))
	}
	if n.account == nil {
		return
	}
	for _, pod := range pods {
		if err := n.see(pod); err != nil {
			n.notes = append(n.notes, fmt.Sprintf("node %s: %v", n.name, err))
		}
	}
}

// see takes in a pod that is bound to the node.
func (n *liveNode) see(pod *corev1.Pod) error {
	request, err := wire.Request(pod)
	if err != nil {
		return err
	}
	if !request.Pinnable() {
		return nil
	}
	if wire.Ended(pod) && !n.account.Report().Has(request.UID) {
		return nil // it holds nothing any more; the scheduler does not see it either
	}
	p, found, err := wire.PlacementOf(pod)
	s := ledger.Sighting{
		UID: request.UID, Request: &request, Created: pod.CreationTimestamp.Unix(),
		Ending: wire.Ending(pod), Mortal: wire.Mortal(pod),
	}
	if found && err == nil {
		s.Turn, s.Promise = int64(p.Sequence), &ledger.Promise{Decision: p.Decision, Exact: p.Certainty == wire.Exact}
	}
	n.account.See(s)
	switch listed := n.account.Report().Has(s.UID); {
	case listed:
	case s.Ending:
		n.lingering++
	default:
		n.inFlight++
	}
	return err
}

// guarantee is what the scheduler can promise on this node.
func (n *liveNode) guarantee() string {
	if n.trouble != nil {
		return wire.GuaranteeNone.String()
	}
	return wire.GuaranteeFull.String()
}

// sequence is the number of the report; 0 without one.
func (n *liveNode) sequence() int64 {
	if n.report == nil {
		return 0
	}
	return n.report.Sequence
}

// adviceFor says what a person can do about a trouble.
func adviceFor(reason, node string) string {
	agent := "kubectl get pods -A -o wide --field-selector spec.nodeName=" + node + " | grep berth-agent"
	switch reason {
	case troubleNoReport:
		return "start berth-agent there, or look at why it does not report: " + agent
	case troubleStray:
		return "if the node is gone for good: kubectl delete nodetopology " + node
	case troubleSilent:
		return "look at the agent: " + agent
	case troubleMalformed:
		return "use one release of Berth throughout; kubectl delete nodetopology " + node + " makes its agent write it anew"
	case troubleOtherForm:
		return "kubectl delete nodetopology " + node + "; after an upgrade of Berth, kubectl delete nodetopologies --all (docs/operations.md)"
	case troubleUnsupported:
		return "change the kubelet's configuration as said, or keep pinned pods off the node (docs/scope.md)"
	case v1alpha1.ReasonUnreadable:
		return "look at the file that the message names, in the kubelet's root directory (docs/operations.md)"
	case v1alpha1.ReasonContradiction:
		return "if the kubelet's configuration was changed without a restart, restart it or take the change back (docs/operations.md)"
	case v1alpha1.ReasonMachineChanged:
		return "undo the change; or drain the node, stop the kubelet, remove the checkpoints that the message names, start the kubelet (docs/operations.md)"
	case v1alpha1.ReasonAdmissionUnfinished:
		return "look at the kubelet's log: it has been admitting a pod for too long"
	case v1alpha1.ReasonDevicesUnknown:
		return "let the agent reach the kubelet's PodResources socket (docs/operations.md)"
	}
	return "kubectl describe nodetopology " + node
}
