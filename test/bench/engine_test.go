package bench

import (
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

// engine has Berth's model, state and request for a question.
type engine struct {
	model    *placement.Model
	state    *placement.State
	request  placement.Request
	decision placement.Decision
}

func newEngine(t testing.TB, q question) *engine {
	t.Helper()
	c := q.machine.caseOf(q.policy)
	view, err := c.Machine.View()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := c.Config.Placement(placement.V137)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{}
	if e.model, err = placement.NewModel(view, cfg); err != nil {
		t.Fatal(err)
	}
	e.state = e.model.NewState()
	pool, err := c.Devices[0].Placement()
	if err != nil {
		t.Fatal(err)
	}
	e.state.SetPool(pool)
	if q.half {
		e.load(t, q.machine)
	}
	ask, err := wire.ReadPod(q.asked())
	if err != nil {
		t.Fatal(err)
	}
	e.request = ask.Request
	return e
}

// load commits the load of the machine.
func (e *engine) load(t testing.TB, m machine) {
	t.Helper()
	for _, h := range m.load() {
		ask, err := wire.ReadPod(loadPod(h))
		if err != nil {
			t.Fatal(err)
		}
		memory := []placement.MemoryBlock{{Resource: "memory", NUMA: topology.NewNUMASet(h.NUMA), Bytes: h.Bytes}}
		e.state.Commit(&ask.Request, &placement.Decision{UID: ask.Request.UID, Containers: []placement.ContainerDecision{{Name: "main", CPUs: h.CPUs, Memory: memory}}})
	}
	if err := e.state.Check(); err != nil {
		t.Fatal(err)
	}
}

func (e *engine) admit() { placement.Admit(e.state, &e.request) }

func (e *engine) decide() { placement.Decide(e.state, &e.request, &e.decision) }

// turnover admits the pod, commits the decision, and removes the pod.
func (e *engine) turnover() {
	e.decide()
	e.state.Commit(&e.request, &e.decision)
	e.state.Release(e.request.UID)
}

// holdings returns the decision in the form that package cases has for results. Devices have the
// nodes of machine.caseOf.
func (e *engine) holdings(c *cases.Case) []cases.ContainerResult {
	var out []cases.ContainerResult
	for i := range e.decision.Containers {
		d := &e.decision.Containers[i]
		r := cases.ContainerResult{Name: d.Name, Hint: cases.HintOf(d.Hint), CPUs: d.CPUs.String()}
		for _, b := range d.Memory {
			r.Memory = append(r.Memory, cases.MemoryBlock{Type: b.Resource, NUMA: cases.NUMAIDs(b.NUMA), Size: b.Bytes})
		}
		for _, a := range d.Devices {
			r.Devices = map[string][]cases.DeviceOnNodes{}
			for _, id := range a.IDs {
				r.Devices[a.Resource] = append(r.Devices[a.Resource], cases.DeviceOnNodes{ID: id, NUMA: nodesOf(c, id)})
			}
		}
		out = append(out, r)
	}
	return out
}

func nodesOf(c *cases.Case, device string) []topology.NUMAID {
	for _, d := range c.Devices[0].Devices {
		if d.ID == device {
			return d.NUMA
		}
	}
	return nil
}

// books returns the state in the form that package cases has for results.
func (e *engine) books() *cases.State {
	snap := e.state.Snapshot()
	out := &cases.State{DefaultCPUs: snap.SharedCPUs.String(), Memory: map[topology.NUMAID]cases.NodeMemory{}}
	for _, t := range snap.Memory {
		n := cases.NodeMemory{Assignments: t.Assignments, Cells: cases.NUMAIDs(t.Cells), Table: map[string]cases.Amounts{}}
		for _, r := range t.Resources {
			n.Table[r.Resource] = cases.Amounts{Allocatable: r.Allocatable, Reserved: r.Reserved, Free: r.Free}
		}
		out.Memory[t.NUMA] = n
	}
	return out
}
