package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/usage"
)

// A node of the write generator has nodePods pods, and one change per interval, the middle of 10 to
// 60 seconds.
const (
	writtenPods  = 60
	changesEvery = 35 * time.Second
)

// simulateWrites prepares the nodes of the write generator, all of one kind and full.
func (b *bench) simulateWrites() (*nodeKind, error) {
	kinds, err := kindOfWrites()
	if err != nil {
		return nil, err
	}
	if err := b.simulate(kinds, false); err != nil {
		return nil, err
	}
	b.fleet.prepare = fillNode
	return kinds[0], nil
}

// writes runs every agent's reports and heartbeats, without any pods in the API.
func (b *bench) writes() error {
	kind, err := b.simulateWrites()
	if err != nil {
		return err
	}
	nodes := b.options.nodes[len(b.options.nodes)-1]
	w := &writesResult{Nodes: nodes, CPUs: kind.spec.Machine.Online.Len(), Pods: writtenPods}
	b.result.Writes = w
	if w.EmptyStorage, err = b.storage(); err != nil {
		return err
	}
	if err := b.grow(nodes); err != nil {
		return err
	}
	if w.FullStorage, err = b.storage(); err != nil {
		return err
	}
	var received atomic.Int64
	go func() { b.fleet.failed(b.watchReports(&received)) }()
	for _, p := range []struct {
		name           string
		beats, changes bool
	}{{"nothing", false, false}, {"heartbeats", true, false}, {"heartbeats and reports", true, true}} {
		if err := b.phaseOfWrites(p.name, p.beats, p.changes, &received); err != nil {
			return err
		}
	}
	w.LastStorage = w.Phases[len(w.Phases)-1].Storage
	return b.sizes(w)
}

func (b *bench) phaseOfWrites(name string, beats, changes bool, received *atomic.Int64) error {
	ctx, cancel := context.WithTimeout(b.ctx, b.options.length)
	defer cancel()
	b.fleet.beats.taken()
	b.fleet.tally.reset()
	cpu, bytes, begun := usage.CPU(b.plane.Process), received.Load(), time.Now()
	var wg sync.WaitGroup
	if beats {
		wg.Go(func() { b.fleet.pulse(ctx, b.options.heartbeat) })
	}
	if changes {
		wg.Go(func() { b.fleet.evenly(ctx, changesEvery, b.change) })
	}
	select {
	case <-ctx.Done():
	case err := <-b.fleet.fail:
		return err
	}
	wg.Wait()
	p := writesPhase{Name: name, Seconds: time.Since(begun).Seconds(), LoadAverage: loadAverage()}
	p.Cores = (usage.CPU(b.plane.Process) - cpu).Seconds() / p.Seconds
	p.WatchedBytes, p.ServerMemory = received.Load()-bytes, usage.Memory(b.plane.Process, "VmRSS")
	p.Heartbeats = newLatencies(b.fleet.beats.taken(), p.Seconds)
	b.fleet.tally.mu.Lock()
	p.Reports = newLatencies(b.fleet.tally.reports, p.Seconds)
	b.fleet.tally.mu.Unlock()
	p.perWrite(b.result.Writes.Phases)
	var err error
	p.Storage, err = b.storage()
	b.result.Writes.Phases = append(b.result.Writes.Phases, p)
	b.say("%s: %.2f cores, %+v, %+v", name, p.Cores, p.Heartbeats, p.Reports)
	return err
}

// perWrite computes the cost of one write from the difference to earlier phases, which write less.
func (p *writesPhase) perWrite(before []writesPhase) {
	if len(before) > 0 && p.Heartbeats.PerSecond > 0 {
		p.PerHeartbeat = 1e6 * (p.Cores - before[0].Cores) / p.Heartbeats.PerSecond
	}
	if len(before) > 1 && p.Reports.PerSecond > 0 {
		p.PerHeartbeat = before[1].PerHeartbeat
		p.PerReport = 1e6 * (p.Cores - before[0].Cores - 1e-6*p.PerHeartbeat*p.Heartbeats.PerSecond) / p.Reports.PerSecond
	}
}

// turnOver replaces the node's oldest pod.
func (n *simNode) turnOver() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	oldest := n.next - writtenPods
	n.kubelet.Remove(uidOf(n, oldest))
	delete(n.pods, types.UID(uidOf(n, oldest)))
	return n.put()
}

// change replaces a pod of a node and reports it.
func (b *bench) change(ctx context.Context, n *simNode) error {
	if err := n.turnOver(); err != nil {
		return err
	}
	took, err := n.report(ctx, b.plane)
	if err == nil {
		b.fleet.tally.report(took)
	}
	return err
}

// fillNode gives a node its pods.
func fillNode(n *simNode) error {
	for range writtenPods {
		if err := n.put(); err != nil {
			return err
		}
	}
	return nil
}

// put admits the node's next pod: it pins 4 CPUs and 2 GiB, one in six 2 CPUs.
func (n *simNode) put() error {
	cpus := int64(4)
	if n.next%6 == 5 {
		cpus = 2
	}
	r := placement.Request{UID: uidOf(n, n.next), Guaranteed: true, Containers: []placement.ContainerRequest{{
		Name: "main", MilliCPU: 1000 * cpus, Memory: []placement.MemoryRequest{{Resource: "memory", Bytes: 2 * gib}},
	}}}
	if a := n.kubelet.Admit(&r); !a.Verdict.OK() {
		return fmt.Errorf("%s: pod %d does not fit: %s", n.name, n.next, a.Verdict.Reason)
	}
	n.pods[types.UID(r.UID)] = &simPod{name: fmt.Sprintf("inference-server-7d9c5b6f8d-%05d", n.next), told: true}
	n.next++
	return nil
}

// uidOf is the UID of a node's i-th pod, of the usual length.
func uidOf(n *simNode, i int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", i, len(n.name)<<32+i)
}

// sizes finds the largest objects.
func (b *bench) sizes(w *writesResult) error {
	for i, n := range b.fleet.list {
		w.SentBytes = max(w.SentBytes, n.bytes)
		if i%97 > 0 {
			continue // a sample is enough, because the sizes differ only by digits
		}
		data, err := b.plane.raw.Get().AbsPath(reportPath(n.name)).Do(b.ctx).Raw()
		if err != nil {
			return err
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			return err
		}
		w.StoredBytes = max(w.StoredBytes, compact.Len())
	}
	return nil
}

// watchReports watches all NodeTopologies, as a scheduler does, and counts the bytes.
func (b *bench) watchReports(received *atomic.Int64) error {
	gv := v1alpha1.GroupVersion
	stream, err := b.plane.raw.Get().AbsPath("/apis/"+gv.Group+"/"+gv.Version+"/nodetopologies").
		Param("watch", "true").Param("timeoutSeconds", "21600").Stream(b.ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := stream.Read(buffer)
		received.Add(int64(n))
		if err == io.EOF || b.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
