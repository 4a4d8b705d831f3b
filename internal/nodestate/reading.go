package nodestate

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
)

// Reading is a report of a node, with all parts that could be read. It is immutable.
type Reading struct {
	Node string
	// Source is the source of the report, for events about it.
	Source Source
	// Mark shows which of two readings of a node is newer. It is zero if the object does not have
	// this release's form (NodeTopology.Malformed), and for the report of another project's
	// exporter.
	Mark Mark
	// Version is the resource version of the object.
	Version string
	// Kind is the node's machine and configuration; nil if they could not be read.
	Kind *NodeKind
	// Report is the full content of the report, or nil if it could not be read.
	Report *wire.Report
	// State is the report in the ledger's form. It is nil unless the report is reliable.
	State *ledger.Report
	// Guarantee is the strongest guarantee that is possible on the node. It is none if the node is
	// unusable.
	Guarantee wire.Guarantee
	// Unusable explains why the report is not reliable, or is nil.
	Unusable *Unusable
}

// Source names the object that a report was read from.
type Source struct {
	// APIVersion, Kind, Name and UID identify the object. Version is its resourceVersion.
	APIVersion, Kind, Name, UID, Version string
}

// Authority returns the node's authority, or "" if it could not be read.
func (r *Reading) Authority() v1alpha1.Authority {
	if r.Kind == nil {
		return ""
	}
	return r.Kind.Spec.Authority
}

// Coarse reports whether another project's exporter, not Berth's agent, wrote the report.
func (r *Reading) Coarse() bool { return r.Source.Kind != nodeTopology }

const nodeTopology = "NodeTopology"

// NewObject returns an empty object of the kind of full reports, for a watch.
func NewObject() runtime.Object { return new(v1alpha1.NodeTopology) }

// Lists reports whether o is a NodeTopology that lists an admitted pod with resources for which
// is(UID) returns true. It reads no other part of the object.
func Lists(o metav1.Object, is func(uid string) bool) bool {
	nt, ok := o.(*v1alpha1.NodeTopology)
	return ok && slices.ContainsFunc(nt.Status.Pods, func(p v1alpha1.PodAllocation) bool {
		return p.State == "" && len(p.Containers) > 0 && is(p.UID)
	})
}

// ReadObject does the same as Read, for an object whose type is not known. It returns an error if
// the object is not a NodeTopology. Errors in the report are in the Reading.
func (k *Kinds) ReadObject(o metav1.Object, last *NodeKind) (*Reading, error) {
	nt, ok := o.(*v1alpha1.NodeTopology)
	if !ok {
		return nil, fmt.Errorf("%s: %T: want a NodeTopology", o.GetName(), o)
	}
	return k.Read(nt, last), nil
}

// Read reads a NodeTopology. The argument last is the previous kind of the node, or nil. If the
// kind has not changed, last saves time. If the report is invalid, Unusable has the error.
func (k *Kinds) Read(nt *v1alpha1.NodeTopology, last *NodeKind) *Reading {
	r := &Reading{Node: nt.Name, Version: nt.ResourceVersion, Source: Source{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: nodeTopology, Name: nt.Name, UID: string(nt.UID), Version: nt.ResourceVersion,
	}}
	if nt.Malformed == "" { // a malformed object may have no valid number
		r.Mark = markOf(nt)
	}
	if err := r.read(nt, k, last); err != nil {
		r.Unusable, r.State = unusable(err), nil
		return r
	}
	if r.Guarantee = wire.GuaranteeFull; r.Kind.Spec.Koordlet {
		r.Guarantee = wire.GuaranteeAmounts
	}
	return r
}

func (r *Reading) read(nt *v1alpha1.NodeTopology, kinds *Kinds, last *NodeKind) error {
	var err error
	if r.Kind, err = kinds.of(nt, last); err != nil {
		return err
	}
	if count := len(nt.Status.Pods); count > maxPods {
		return &wire.FieldError{Object: "NodeTopology " + nt.Name, Field: "status.pods",
			Value: fmt.Sprint(count), Want: fmt.Sprint("at most ", maxPods)}
	}
	report, err := wire.ReadReport(nt)
	if err != nil {
		return err
	}
	r.Report = &report
	if err := report.CheckReady(); err != nil {
		return err
	}
	if err := wire.CheckReport(&r.Kind.Spec, &report, nt.Name); err != nil {
		return err
	}
	report.Complete(&r.Kind.Spec)
	r.State, err = ledger.NewReport(report.Sequence, r.Kind.Model, &report.Snapshot, fates(&report))
	if current := meta.FindStatusCondition(report.Conditions, v1alpha1.ConditionKubeletCurrent); err == nil && current != nil {
		r.State.Unsure = current.Status == metav1.ConditionUnknown
	}
	return err
}

// maxPods is the maximum number of pods in a report, as in the schema of NodeTopology. The time to
// read a report grows with this number.
const maxPods = 1024

// fates returns the Fates of the pods in the report, except pods that are ledger.Alive. A pod that
// the agent does not know counts as alive.
func fates(r *wire.Report) map[string]ledger.Fate {
	out := map[string]ledger.Fate{}
	for i := range r.Pods {
		uid := r.Snapshot.Pods[i].UID
		switch r.Pods[i].State {
		case v1alpha1.PodEnded:
			out[uid] = ledger.Over
		case v1alpha1.PodRejected:
			out[uid] = ledger.Rejected
		}
	}
	return out
}
