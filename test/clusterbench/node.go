package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/sim"
)

var podLimit = resource.NewQuantity(250, resource.DecimalSI)

// simNode is one node: its kubelet, which admits the pods of the watch, and its agent.
type simNode struct {
	name string
	kind *nodeKind

	mu      sync.Mutex
	kubelet *sim.Kubelet
	pods    map[types.UID]*simPod
	// next numbers the pods of the write generator.
	next int
	// due means that a report is scheduled.
	due bool

	// writing serializes the node's writes; it guards the next fields.
	writing   sync.Mutex
	sequence  int64
	published *placement.Snapshot
	bytes     int

	// holds is the number of the last report that was written, for heartbeats.
	holds atomic.Int64
}

// simPod is a pod that the kubelet has handled.
type simPod struct {
	name    string
	refused bool
	seen    time.Time
	// told means that the phase has been written to the API.
	told bool
}

// admit decides about a new pod of the watch at once, as a kubelet does. It reports whether the pod
// was new.
func (n *simNode) admit(pod *corev1.Pod) (fresh, refused bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods[pod.UID] != nil {
		return false, false, nil
	}
	ask, err := wire.ReadPod(pod)
	if err != nil {
		return false, false, err
	}
	refused = !n.kubelet.Admit(&ask.Request).Verdict.OK()
	n.pods[pod.UID] = &simPod{name: pod.Name, refused: refused, seen: time.Now()}
	return true, refused, nil
}

// remove releases a deleted pod, as a kubelet does. It reports whether the node knew the pod.
func (n *simNode) remove(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods[uid] == nil {
		return false
	}
	n.kubelet.Remove(string(uid))
	delete(n.pods, uid)
	return true
}

// untold returns the pods without a written phase, and marks them as written.
func (n *simNode) untold() (out []simPod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.due = false
	for _, p := range n.pods {
		if !p.told {
			p.told = true
			out = append(out, *p)
		}
	}
	return out
}

func (n *simNode) snapshot() (placement.Snapshot, []wire.ReportedPod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.kubelet.State.Snapshot()
	more := make([]wire.ReportedPod, len(s.Pods))
	for i := range s.Pods {
		p := n.pods[types.UID(s.Pods[i].UID)]
		if p != nil && len(s.Pods[i].Containers) > 0 {
			more[i].Namespace, more[i].Name = podNamespace, p.name
		}
	}
	return s, more
}

// report writes the node's NodeTopology as its agent does: by server-side apply, and only after a
// change. It returns the time of the write, 0 for none.
func (n *simNode) report(ctx context.Context, p *plane) (time.Duration, error) {
	n.writing.Lock()
	defer n.writing.Unlock()
	snap, more := n.snapshot()
	if n.published != nil && reflect.DeepEqual(*n.published, snap) {
		return 0, nil
	}
	n.sequence++
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: n.name, Spec: n.kind.spec, Report: wire.Report{
		Sequence: n.sequence, Observed: time.Now(), Snapshot: snap, Pods: more, KubeletStarted: readyCondition.LastTransitionTime.Time, Conditions: []metav1.Condition{readyCondition},
	}})
	if err != nil {
		return 0, err
	}
	data, err := json.Marshal(nt)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	err = p.raw.Patch(types.ApplyPatchType).AbsPath(reportPath(n.name)).Param("fieldManager", "berth-agent").Param("force", "true").
		Param("fieldValidation", "Ignore").SetHeader("Accept", metadataOnly).Body(data).Do(ctx).Error()
	if err != nil {
		return 0, fmt.Errorf("report of %s: %w", n.name, err)
	}
	n.published, n.bytes = &snap, len(data)
	n.holds.Store(n.sequence)
	return time.Since(begun), nil
}

// metadataOnly requests an answer without the object that was just sent.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

func reportPath(node string) string {
	gv := v1alpha1.GroupVersion
	return "/apis/" + gv.Group + "/" + gv.Version + "/nodetopologies/" + node
}

var readyCondition = metav1.Condition{
	Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConsistent,
	LastTransitionTime: metav1.NewTime(time.Unix(1700000000, 0)),
}

// object is the Node as its kubelet registers it.
func (n *simNode) object() *corev1.Node {
	m := n.kind.spec.Machine
	all := amounts(1000*int64(m.Online.Len()), n.kind.memory())
	all[corev1.ResourcePods] = *podLimit
	room := all.DeepCopy()
	if reserved := n.kind.reserved(); reserved > 0 {
		room[corev1.ResourceCPU] = amounts(1000*int64(m.Online.Len()-reserved), 0)[corev1.ResourceCPU]
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
			corev1.LabelHostname: n.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelTopologyZone: "zone-" + n.name[len(n.name)-1:],
		}},
		Status: corev1.NodeStatus{
			Capacity: all, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: readyCondition.LastTransitionTime}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: n.kind.spec.KubeletVersion, OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}
