package nodestate

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
)

// ReadCoarse reads the report of another project's exporter: a Numatopology or a
// NodeResourceTopology. With such a report, the node's Guarantee is at most amounts. The Reading
// has no Mark, because these reports have no sequence numbers. Most of these reports list no pods,
// so beside must have the pods that are bound to the node. Errors in the report are in the Reading;
// an object of another kind is an error.
func (k *Kinds) ReadCoarse(o metav1.Object, beside *wire.Beside, last *NodeKind) (*Reading, error) {
	r := &Reading{Node: o.GetName(), Source: Source{Name: o.GetName(), UID: string(o.GetUID()), Version: o.GetResourceVersion()}}
	var node wire.Node
	var err error
	switch o := o.(type) {
	case *nodeinfo.Numatopology:
		r.Source.APIVersion, r.Source.Kind = nodeinfo.GroupVersion.String(), "Numatopology"
		node, err = wire.ReadNumatopology(o, beside)
	case *nrt.NodeResourceTopology:
		r.Source.APIVersion, r.Source.Kind = nrt.GroupVersion.String(), "NodeResourceTopology"
		node, err = wire.ReadNodeResourceTopology(o, beside)
	default:
		return nil, fmt.Errorf("%s: %T: want a Numatopology or a NodeResourceTopology", o.GetName(), o)
	}
	if err == nil {
		r.Report = &node.Report
		err = r.readCoarse(&node, k, last)
	}
	if err != nil {
		r.Unusable, r.State = unusable(err), nil
		return r, nil
	}
	r.Guarantee = wire.GuaranteeAmounts
	return r, nil
}

func (r *Reading) readCoarse(node *wire.Node, kinds *Kinds, last *NodeKind) error {
	var err error
	if r.Kind, err = kinds.ofSpec(node.Spec, last); err != nil {
		return err
	}
	r.State, err = ledger.NewReport(node.Report.Sequence, r.Kind.Model, &node.Report.Snapshot, fates(&node.Report))
	if err == nil {
		r.State.Amounts = true
	}
	return err
}

// ofSpec does what Kinds.of does, for a spec from a coarse report.
func (k *Kinds) ofSpec(spec wire.NodeSpec, last *NodeKind) (*NodeKind, error) {
	guarded := spec
	guarded.Config.GuardDefects = true
	if last != nil && last.coarse && last.Model != nil && reflect.DeepEqual(last.Spec, guarded) {
		return last, nil
	}
	key, err := json.Marshal(struct {
		Machine, Version string
		Config           any
	}{spec.Machine.String(), spec.KubeletVersion, spec.Config})
	if err != nil {
		return nil, err
	}
	// The kind is never shared with nodes that have full reports, because the scheduler may use the
	// answer of one node for all nodes of its kind.
	return k.shared("coarse "+string(key), func() (*NodeKind, error) {
		kind, err := kindOf(spec, nil, k.Providers)
		kind.coarse = true
		return kind, err
	})
}

// BesideOf returns the facts about a node that a coarse report lacks: its pods that have not ended,
// and its kubelet's release. The argument node is nil if it is not known.
func BesideOf(node *corev1.Node, pods []*corev1.Pod) *wire.Beside {
	b := new(wire.Beside)
	if node != nil {
		b.KubeletVersion = node.Status.NodeInfo.KubeletVersion
	}
	for _, pod := range pods {
		if wire.Ended(pod) {
			continue
		}
		one := wire.BoundPod{UID: string(pod.UID), PodName: wire.PodName{Namespace: pod.Namespace, Name: pod.Name}}
		if pod.Status.StartTime != nil {
			one.Started = pod.Status.StartTime.Time
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
				one.Bound = c.LastTransitionTime.Time
			}
		}
		ask, err := wire.ReadPod(pod)
		one.Exclusive = err == nil && ask.Request.Pinnable()
		b.Pods = append(b.Pods, one)
	}
	return b
}

// Prefer returns the first usable reading. If no reading is usable, Prefer returns the first
// reading. Without readings it returns nil.
func Prefer(coarse []*Reading) *Reading {
	var chosen *Reading
	for _, r := range coarse {
		if r != nil && (chosen == nil || chosen.Unusable != nil && r.Unusable == nil) {
			chosen = r
		}
	}
	return chosen
}
