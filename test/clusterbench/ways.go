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
)

// The sizes of the comparison: nodes, writes of each in a turn, turns of each way, and writers.
const (
	waysNodes  = 48
	waysWrites = 4
	waysTurns  = 5
	waysWidth  = 4
)

// newWays returns what is compared; the first is what agents do.
func newWays() []*way {
	terse := func(r *rest.Request) *rest.Request {
		return r.Param("fieldValidation", "Ignore").SetHeader("Accept", metadataOnly)
	}
	return []*way{
		{Name: "server-side apply, fields not validated twice, metadata as answer", request: func(raw rest.Interface, nt *v1alpha1.NodeTopology, _ string) (*rest.Request, error) {
			r, err := applied(raw, nt)
			return terse(r), err
		}},
		{Name: "server-side apply with the defaults of a client", request: func(raw rest.Interface, nt *v1alpha1.NodeTopology, _ string) (*rest.Request, error) {
			return applied(raw, nt)
		}},
		{Name: "update with a resource version", request: func(raw rest.Interface, nt *v1alpha1.NodeTopology, version string) (*rest.Request, error) {
			nt.ResourceVersion = version
			data, err := json.Marshal(nt)
			return terse(raw.Put().AbsPath(reportPath(nt.Name)).Body(data).SetHeader("Content-Type", "application/json")), err
		}},
		{Name: "merge patch of the status", request: func(raw rest.Interface, nt *v1alpha1.NodeTopology, version string) (*rest.Request, error) {
			data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "status": nt.Status})
			return terse(raw.Patch(types.MergePatchType).AbsPath(reportPath(nt.Name)).Body(data)), err
		}},
	}
}

func applied(raw rest.Interface, nt *v1alpha1.NodeTopology) (*rest.Request, error) {
	data, err := json.Marshal(nt)
	return raw.Patch(types.ApplyPatchType).AbsPath(reportPath(nt.Name)).Param("force", "true").Body(data), err
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
	before := b.plane.CPU()
	err := each(b.ctx, waysWidth, waysNodes, func(ctx context.Context, i int) error {
		for k := range waysWrites {
			var err error
			if took[i*waysWrites+k], err = b.write(ctx, w, b.fleet.list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	w.PerWrite = append(w.PerWrite, float64((b.plane.CPU()-before).Microseconds())/float64(len(took)))
	w.Latency = append(w.Latency, newLatencies(took, 1).P50)
	return err
}

// write changes a node and reports it.
func (b *bench) write(ctx context.Context, w *way, n *simNode) (time.Duration, error) {
	if err := n.turnOver(); err != nil {
		return 0, err
	}
	snap, more := n.snapshot()
	n.sequence++
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: n.name, Spec: n.kind.spec, Report: wire.Report{
		Sequence: n.sequence, Observed: time.Now(), Snapshot: snap, Pods: more, Conditions: []metav1.Condition{readyCondition},
	}})
	if err != nil {
		return 0, err
	}
	r, err := w.request(b.plane.raw, nt, n.version)
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
	err = json.Unmarshal(answer, &got)
	n.version = got.ResourceVersion
	return took, err
}
