// Package play runs cases through the engine: what would a kubelet with this machine and
// configuration do with these events? Its results have the same form as the recorded results of
// genuine kubelets (test/replay/cases).
package play

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/test/sim"
	"github.com/berth-dev/berth/topology"
)

// Run answers a case as a kubelet of the given release would (0: placement.V136). If the kubelet
// does not start with the configuration, Result.StartupError has the reason. An error means that
// the case itself is invalid.
func Run(c *cases.Case, version placement.Version) (*cases.Result, error) {
	r := &cases.Result{ID: c.ID, Events: []cases.EventResult{}}
	k, err := boot(c, version)
	var refused *placement.ConfigError
	if errors.As(err, &refused) {
		r.StartupError = err.Error()
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("case %q: %w", c.ID, err)
	}
	for i := range c.Events {
		e, err := k.event(&c.Events[i])
		if err != nil {
			return nil, fmt.Errorf("case %q: event %d: %w", c.ID, i, err)
		}
		e.Event = i
		r.Nondeterministic = r.Nondeterministic || e.Random
		r.Events = append(r.Events, e)
		if e.Panic != "" {
			break
		}
	}
	return r, nil
}

// kubelet is a kubelet in the middle of a case.
type kubelet struct {
	*sim.Kubelet
	// pools has the NUMA nodes of devices as in the case.
	pools map[string]map[string]cases.Device
	// random means that a decision of the current event was random, so that the results from this
	// event on may differ.
	random bool
}

// boot starts the kubelet and registers the plugins.
func boot(c *cases.Case, version placement.Version) (*kubelet, error) {
	view, err := c.Machine.View()
	if err != nil {
		return nil, err
	}
	cfg, err := c.Config.Placement(version)
	if err != nil {
		return nil, err
	}
	model, err := placement.NewModel(view, cfg)
	if err != nil {
		return nil, err
	}
	k := &kubelet{Kubelet: sim.NewKubelet(model), pools: map[string]map[string]cases.Device{}}
	for i := range c.Devices {
		if err := k.setPool(&c.Devices[i]); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Declined reports whether the case's kubelet would start but the engine does not predict its
// decisions.
func Declined(c *cases.Case, version placement.Version) bool {
	_, err := boot(c, version)
	var refused *placement.ConfigError
	return errors.As(err, &refused) && refused.Unsupported
}

func (k *kubelet) setPool(p *cases.Pool) error {
	pool, err := p.Placement()
	if err != nil {
		return err
	}
	k.State.SetPool(pool)
	devices := map[string]cases.Device{}
	for _, d := range p.Devices {
		devices[d.ID] = d
	}
	k.pools[p.Resource] = devices
	return nil
}

func (k *kubelet) event(e *cases.Event) (out cases.EventResult, err error) {
	out.Type, out.UID = e.Type, e.UID
	k.random = false
	switch e.Type {
	case cases.Admit:
		err = k.admit(e, &out)
	case cases.Remove:
		k.random = k.Remove(e.UID)
	case cases.Start:
		k.Start(e.UID, e.Containers)
		if a := k.Active(e.UID); a != nil {
			out.Containers = k.containers(a)
		}
	case cases.Restart:
		k.restart(&out)
	case cases.Devices:
		err = k.setPool(e.Pool)
	default:
		err = fmt.Errorf("type: %q: want admit, remove, start, restart or devices", e.Type)
	}
	out.Random = k.random
	if out.Panic == "" {
		out.State = k.books()
	}
	return out, err
}

func (k *kubelet) admit(e *cases.Event, out *cases.EventResult) error {
	ask, err := wire.ReadPod(e.Pod)
	if err != nil {
		return err
	}
	if ask.Request.UID == "" {
		return errors.New(`pod.metadata.uid: "": want a UID`)
	}
	endings, err := meanwhile(ask.Request.UID, e.Meanwhile)
	if err != nil {
		return err
	}
	a := k.AdmitAmid(&ask.Request, endings)
	k.random = a.Random
	*out = k.result(a)
	return nil
}

// meanwhile parses the ends of other pods during the admission of a pod. Each of them ends once.
func meanwhile(admitted string, endings []cases.Ending) (out []placement.Meanwhile, err error) {
	for i, e := range endings {
		if e.UID == "" || e.UID == admitted || slices.ContainsFunc(endings[:i], func(o cases.Ending) bool { return o.UID == e.UID }) {
			return nil, fmt.Errorf("meanwhile[%d].uid: %q: want the UID of another pod, each once", i, e.UID)
		}
		if e.Step < 0 {
			return nil, fmt.Errorf("meanwhile[%d].step: %d: want 0 or more", i, e.Step)
		}
		out = append(out, placement.Meanwhile{Step: e.Step, UID: e.UID})
	}
	return out, nil
}

// result returns an admission in the form of results.
func (k *kubelet) result(a *sim.Admission) cases.EventResult {
	admitted := a.Verdict.OK()
	out := cases.EventResult{Type: cases.Admit, UID: a.Request.UID, Admitted: &admitted}
	if !admitted {
		out.Reason, out.Message = a.Verdict.Reason.String(), a.Verdict.Detail.Text()
		return out
	}
	out.Containers = k.containers(a)
	return out
}

// restart starts the kubelet again.
func (k *kubelet) restart(out *cases.EventResult) {
	again, random, err := k.Restart()
	k.random = random
	if err != nil {
		out.Panic = "restart failed: " + err.Error()
		if wrong := new(sim.RestartError); errors.As(err, &wrong) && wrong.Crash {
			out.Reason = placement.KubeletDefect.String()
		}
		return
	}
	for _, a := range again {
		out.Readmit = append(out.Readmit, k.result(a))
	}
}

// containers returns the resources of a pod's containers, with the hints of their admission.
func (k *kubelet) containers(a *sim.Admission) []cases.ContainerResult {
	held, _ := k.State.Pod(a.Request.UID)
	var out []cases.ContainerResult
	for i := range min(len(held.Containers), len(a.Decision.Containers)) {
		c := &held.Containers[i]
		r := cases.ContainerResult{Name: c.Name, Hint: cases.HintOf(a.Decision.Containers[i].Hint), CPUs: c.CPUs.String()}
		for _, b := range c.Memory {
			r.Memory = append(r.Memory, cases.MemoryBlock{Type: b.Resource, NUMA: cases.NUMAIDs(b.NUMA), Size: b.Bytes})
		}
		for _, a := range c.Devices {
			if r.Devices == nil {
				r.Devices = map[string][]cases.DeviceOnNodes{}
			}
			for _, id := range a.IDs {
				r.Devices[a.Resource] = append(r.Devices[a.Resource], cases.DeviceOnNodes{ID: id, NUMA: k.pools[a.Resource][id].NUMA})
			}
		}
		out = append(out, r)
	}
	return out
}

// books returns the kubelet's state in the form of results.
func (k *kubelet) books() *cases.State {
	snap := k.State.Snapshot()
	out := &cases.State{DefaultCPUs: snap.SharedCPUs.String()}
	for _, t := range snap.Memory {
		if out.Memory == nil {
			out.Memory = map[topology.NUMAID]cases.NodeMemory{}
		}
		n := cases.NodeMemory{Assignments: t.Assignments, Cells: cases.NUMAIDs(t.Cells), Table: map[string]cases.Amounts{}}
		for _, r := range t.Resources {
			n.Table[r.Resource] = cases.Amounts{Allocatable: r.Allocatable, Reserved: r.Reserved, Free: r.Free}
		}
		out.Memory[t.NUMA] = n
	}
	return out
}
