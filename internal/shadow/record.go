package shadow

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/placement"
)

// Reason is the reason why a pod is not judged.
type Reason string

const (
	// NoAgent: the node has no report.
	NoAgent Reason = "noAgent"
	// LateAgent: for too long, the node's agent did not renew its Lease or did not report the
	// kubelet's answer.
	LateAgent Reason = "lateAgent"
	// OlderAgent means that the report is of another release, or does not have the kubelet's start
	// time.
	OlderAgent Reason = "olderAgent"
	// BadReport means that the report is marked as unreliable or contradicts itself.
	BadReport Reason = "badReport"
	// KubeletRestarted: the kubelet started after the Binding and before it answered.
	KubeletRestarted Reason = "kubeletRestarted"
	// NeverSeen: the pod ended, was deleted or was bound to another node before the kubelet's
	// answer could be judged.
	NeverSeen Reason = "neverSeen"
	// Clocks means that the clocks of the node and of this process differ.
	Clocks Reason = "clocks"
	// AnsweredFirst: shadow mode received the kubelet's answer before it saw the Binding.
	AnsweredFirst Reason = "answeredFirst"
	// Listed: shadow mode learned of the Binding from a list, which does not show the order of
	// events. It had just started, or its watch had broken.
	Listed Reason = "listed"
	// Undecided: the kubelet's answer depends on something unknown, such as the time at which
	// another pod ends.
	Undecided Reason = "undecided"
	// Contended: another pod was bound to the node, or ended, at about the same time.
	Contended Reason = "contended"
	// OtherRule means that the kubelet refused the pod for a reason outside its resource managers.
	OtherRule Reason = "otherRule"
	// Unreadable means that Berth cannot read a part of the pod.
	Unreadable Reason = "unreadable"
	// NoAnswer: the kubelet has not answered for too long.
	NoAnswer Reason = "noAnswer"
	// TooMany: more pods wait for their kubelets' answers than the Book can store.
	TooMany Reason = "tooMany"
)

// Reasons lists all reasons with their meanings.
var Reasons = []struct {
	Reason Reason `json:"reason"`
	Text   string `json:"text"`
}{
	{NoAgent, "the node has no report of an agent"},
	{LateAgent, "the node's agent was silent for too long, or did not report the kubelet's answer in time"},
	{OlderAgent, "the node's report is of another release of Berth, or has no start time of the kubelet"},
	{BadReport, "the node's report was marked as unreliable, or contradicted itself"},
	{KubeletRestarted, "the kubelet started between the Binding and its answer"},
	{NeverSeen, "the pod ended, moved or was deleted before the kubelet's answer was known"},
	{Clocks, "the node's clock differs from the scheduler's"},
	{AnsweredFirst, "shadow mode saw the kubelet's answer before the Binding"},
	{Listed, "shadow mode had just started or its watch had broken, so it does not know the order of the Bindings"},
	{Undecided, "the answer depended on an unknown moment, such as the end of another pod"},
	{Contended, "another pod was bound to the node or ended at about the same time"},
	{OtherRule, "the kubelet rejected the pod for a reason other than CPUs, memory or devices"},
	{Unreadable, "the pod has something that Berth cannot read, such as an annotation with an unknown value"},
	{NoAnswer, "the kubelet has not answered for 10 minutes"},
	{TooMany, "too many pods were waiting for an answer"},
}

// Result is the outcome of a prediction.
type Result string

const (
	// Exact: admitted, with the CPUs, memory and devices that were predicted.
	Exact Result = "exact"
	// ByVerdict: admitted as predicted; CPUs, memory and devices were not predicted.
	ByVerdict Result = "byVerdict"
	// Wrong: admitted as predicted, but with other CPUs, memory or devices.
	Wrong Result = "wrong"
	// Either means that the answer depended on pods that were leaving, and was one of the predicted
	// answers.
	Either Result = "either"
	// Foretold: rejected, as predicted.
	Foretold Result = "foretold"
	// Missed: rejected, but predicted to be admitted.
	Missed Result = "missed"
	// FalseAlarm: admitted, but predicted to be rejected.
	FalseAlarm Result = "falseAlarm"
	// NotJudged: not judged; Record.Reason has the reason.
	NotJudged Result = "notJudged"
)

// Results lists all results.
var Results = []Result{Exact, ByVerdict, Either, Wrong, Foretold, Missed, FalseAlarm, NotJudged}

// Mistaken reports whether the prediction was wrong.
func (r Result) Mistaken() bool { return r == Wrong || r == Missed || r == FalseAlarm }

// Pod identifies a pod, its node and its scheduler.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	Scheduler string `json:"scheduler"`
	// Pinned means that a kubelet with suitable policies gives the pod exclusive resources.
	Pinned bool `json:"pinned"`
}

// Answer is a kubelet's real or predicted answer about a pod.
type Answer struct {
	// Outcome is Admitted or Rejected. In a prediction, it may also be EitherWay.
	Outcome string `json:"outcome"`
	// Reason is the kubelet's reason for a rejection, as in pod.status.reason.
	Reason string `json:"reason,omitempty"`
	// Certainty is "exact" or "verdict" if an admission is predicted, otherwise "".
	Certainty string `json:"certainty,omitempty"`
	// NUMANodes are the NUMA nodes over which the pod is spread.
	NUMANodes  string `json:"numaNodes,omitempty"`
	Containers []Held `json:"containers,omitempty"`
}

// The outcomes of an Answer.
const (
	Admitted = "admitted"
	Rejected = "rejected"
	// EitherWay: the answer depends on pods that are leaving.
	EitherWay = "either"
)

// Held has the exclusive resources of a container.
type Held struct {
	Name    string `json:"name"`
	CPUs    string `json:"cpus,omitempty"`
	Memory  string `json:"memory,omitempty"`
	Devices string `json:"devices,omitempty"`
}

// Decided returns the resources in a decision, by container. It omits containers without resources.
func Decided(d *placement.Decision) (out []Held) {
	for i := range d.Containers {
		c := &d.Containers[i]
		out = addHeld(out, Held{c.Name, c.CPUs.String(), memoryText(c.Memory), devicesText(c.Devices)})
	}
	return out
}

// Found returns the resources of containers in a report.
func Found(p *placement.PodAllocation) (out []Held) {
	for i := range p.Containers {
		c := &p.Containers[i]
		out = addHeld(out, Held{c.Name, c.CPUs.String(), memoryText(c.Memory), devicesText(c.Devices)})
	}
	return out
}

func addHeld(all []Held, h Held) []Held {
	if h == (Held{Name: h.Name}) {
		return all
	}
	return append(all, h)
}

func memoryText(blocks []placement.MemoryBlock) string {
	var parts []string
	for _, b := range blocks {
		parts = append(parts, fmt.Sprintf("%s %d of NUMA %s", b.Resource, b.Bytes, b.NUMA))
	}
	return strings.Join(parts, ", ")
}

func devicesText(all []placement.DeviceAllocation) string {
	var parts []string
	for _, a := range all {
		parts = append(parts, a.Resource+" "+strings.Join(a.IDs, ","))
	}
	return strings.Join(parts, "; ")
}

// Why is the advantage of another node for the pod.
type Why string

const (
	// WhyRejected: the other node's kubelet would have admitted the pod.
	WhyRejected Why = "rejected"
	// WhySplit: the pod would have been on fewer NUMA nodes on the other node.
	WhySplit Why = "split"
	// WhyStranded: on the other node, the pod would have left fewer devices without CPUs.
	WhyStranded Why = "stranded"
)

// Whys lists all values of Why.
var Whys = []Why{WhyRejected, WhySplit, WhyStranded}

// Elsewhere is the other node that Berth would have chosen at the time of the Binding.
type Elsewhere struct {
	Node      string `json:"node"`
	NUMANodes string `json:"numaNodes,omitempty"`
	Why       Why    `json:"why"`
	// Devices is the number of additional devices that would have had enough free CPUs left.
	Devices int `json:"devices,omitempty"`
}

// Record is one pod with the outcome of its prediction.
type Record struct {
	Pod
	Bound    time.Time `json:"bound"`
	Expected *Answer   `json:"expected,omitempty"`
	Got      *Answer   `json:"got,omitempty"`
	Result   Result    `json:"result"`
	Reason   Reason    `json:"reason,omitempty"`
	// Detail explains the Reason Undecided.
	Detail  string     `json:"detail,omitempty"`
	Instead *Elsewhere `json:"instead,omitempty"`
	// Capture is the name of the file with the inputs of a wrong prediction.
	Capture string `json:"capture,omitempty"`
}

// Outcome returns the Result, with the Reason if the pod was not judged.
func (r *Record) Outcome() string {
	if r.Reason == "" {
		return string(r.Result)
	}
	return fmt.Sprintf("%s: %s", r.Result, r.Reason)
}
