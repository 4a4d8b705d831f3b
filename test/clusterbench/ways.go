package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/usage"
)

// The sizes of the comparison: nodes, writes of each node in a turn, turns of each way, and
// concurrent writers.
const (
	waysNodes  = 48
	waysWrites = 4
	waysTurns  = 5
	waysWidth  = 4
)

// written has a new report, the stored report, and the version of the stored report.
type written struct {
	before, now *v1alpha1.NodeTopology
	version     string
}

// newWays returns the compared ways; the first is the way of agents.
func newWays() []*way {
	return []*way{
		{Name: "server-side apply, fields not validated twice, metadata as answer", request: appliedTersely},
		{Name: "server-side apply with the defaults of a client", request: applied},
		{Name: "update with a resource version", request: updated},
		{Name: "merge patch of the status", request: mergePatched},
		{Name: "delta: a JSON patch of what is different", request: deltaPatched},
		{Name: "split object: the pods apart from the machine, by the first way", request: appliedApart},
		{Name: "coarser: by the first way after four changes", Changes: 4, request: appliedTersely},
	}
}

// terse asks the API server to skip the validation of fields, and to answer with metadata only.
func terse(r *rest.Request) *rest.Request {
	return r.Param("fieldValidation", "Ignore").SetHeader("Accept", metadataOnly)
}

func applied(raw rest.Interface, w written) (*rest.Request, error) {
	data, err := json.Marshal(w.now)
	return raw.Patch(types.ApplyPatchType).AbsPath(reportPath(w.now.Name)).Param("force", "true").Body(data), err
}

func appliedTersely(raw rest.Interface, w written) (*rest.Request, error) {
	r, err := applied(raw, w)
	return terse(r), err
}

func updated(raw rest.Interface, w written) (*rest.Request, error) {
	w.now.ResourceVersion = w.version
	data, err := json.Marshal(w.now)
	return terse(raw.Put().AbsPath(reportPath(w.now.Name)).Body(data).SetHeader("Content-Type", "application/json")), err
}

func mergePatched(raw rest.Interface, w written) (*rest.Request, error) {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": w.version}, "status": w.now.Status})
	return terse(raw.Patch(types.MergePatchType).AbsPath(reportPath(w.now.Name)).Body(data)), err
}

// deltaPatched sends the difference from the stored report, on condition that it is still stored.
func deltaPatched(raw rest.Interface, w written) (*rest.Request, error) {
	steps, err := deltaOf(&w.before.Status, &w.now.Status)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(append([]step{{"test", "/status/sequence", w.before.Status.Sequence}}, steps...))
	return terse(raw.Patch(types.JSONPatchType).AbsPath(reportPath(w.now.Name)).Body(data)), err
}

// appliedApart writes only the status, to a second object of the node. The definition requires a
// machine there; it is as short as possible.
func appliedApart(raw rest.Interface, w written) (*rest.Request, error) {
	apart := *w.now
	apart.Name += "-pods"
	apart.Spec = v1alpha1.NodeTopologySpec{Machine: "-", Authority: w.now.Spec.Authority, KubeletVersion: w.now.Spec.KubeletVersion}
	w.now = &apart
	return appliedTersely(raw, w)
}

// ways compares ways to write a report, in turns, on one API server.
func (b *bench) ways() error {
	if _, err := b.simulateWrites(); err != nil {
		return err
	}
	if err := b.grow(waysNodes); err != nil {
		return err
	}
	b.result.Ways = newWays()
	for range waysTurns {
		for _, w := range b.result.Ways {
			if err := b.turn(w); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
	}
	return nil
}

func (b *bench) turn(w *way) error {
	took := make([]time.Duration, waysNodes*waysWrites)
	before := usage.CPU(b.plane.Process)
	err := each(b.ctx, waysWidth, waysNodes, func(ctx context.Context, i int) error {
		for k := range waysWrites {
			var err error
			if took[i*waysWrites+k], err = b.write(ctx, w, b.fleet.list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	w.PerWrite = append(w.PerWrite, float64((usage.CPU(b.plane.Process)-before).Microseconds())/float64(len(took)))
	w.Latency = append(w.Latency, newLatencies(took, 1).P50)
	return err
}

// write changes a node and reports it.
func (b *bench) write(ctx context.Context, w *way, n *simNode) (time.Duration, error) {
	for range max(1, w.Changes) {
		if err := n.turnOver(); err != nil {
			return 0, err
		}
	}
	snap, more := n.snapshot()
	n.sequence++
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: n.name, Spec: n.kind.spec, Report: wire.Report{
		Sequence: n.sequence, Observed: time.Now(), Snapshot: snap, Pods: more, Conditions: []metav1.Condition{readyCondition},
	}})
	if err != nil {
		return 0, err
	}
	r, err := w.request(b.plane.raw, written{n.stored, nt, n.version})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	answer, err := r.Param("fieldManager", "berth-agent").Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("report of %s: %w", n.name, err)
	}
	took := time.Since(begun)
	var got metav1.PartialObjectMetadata
	if err := json.Unmarshal(answer, &got); err != nil {
		return 0, err
	}
	if got.Name == n.name { // not the second object of the node
		n.stored, n.version = nt, got.ResourceVersion
	}
	return took, nil
}
