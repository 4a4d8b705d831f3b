package placement_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// world is a random kubelet with pods.
type world struct {
	r     *rand.Rand
	view  *placement.KubeletView
	cfg   placement.Config
	model *placement.Model
	state *placement.State
	next  int
	pods  []string
	asked map[string]placement.Request
}

// newWorld makes a kubelet with a random machine and configuration; nil if it would not start.
func newWorld(t testing.TB, seed uint64, guard bool) *world {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	d := machine{1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(4), 1 + r.IntN(2), uint64(4+r.IntN(8)) << 30, uint64(r.IntN(3))}
	view := d.view()
	cfg := placement.Config{
		Version:               pick(r, placement.V133, placement.V134, placement.V135, placement.V136, placement.V137),
		CPUManagerPolicy:      pick(r, "none", "static", "static"),
		ReservedMilliCPU:      int64(1 + r.IntN(1500)),
		MemoryManagerPolicy:   pick(r, "None", "Static", "Static"),
		ReservedMemory:        []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 29}}},
		TopologyManagerPolicy: pick(r, "none", "best-effort", "restricted", "single-numa-node"),
		TopologyManagerScope:  pick(r, "container", "pod"),
		FeatureGates:          map[string]bool{"CPUManagerPolicyAlphaOptions": true},
		GuardDefects:          guard,
	}
	if cfg.Version >= placement.V136 && r.IntN(3) == 0 {
		cfg.FeatureGates["PodLevelResourceManagers"] = true
	}
	if cfg.CPUManagerPolicy == "static" {
		cfg.CPUManagerPolicyOptions = map[string]string{}
		for _, o := range []string{"full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache"} {
			if r.IntN(5) == 0 {
				cfg.CPUManagerPolicyOptions[o] = "true"
			}
		}
	}
	m, err := placement.NewModel(view, cfg)
	if err != nil {
		return nil
	}
	w := &world{r: r, view: view, cfg: cfg, model: m, state: m.NewState(), asked: map[string]placement.Request{}}
	if r.IntN(2) == 0 {
		w.state.SetPool(w.pool(d.sockets * d.nodes))
	}
	return w
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (w *world) pool(nodes int) placement.DevicePool {
	p := placement.DevicePool{Resource: "example.com/dev", Preference: pick(w.r, placement.NoPreference, placement.SortedPreference, placement.UnknownPreference)}
	for i := range w.r.IntN(6) {
		d := placement.Device{ID: fmt.Sprint("d", i), Unhealthy: w.r.IntN(6) == 0, HasTopology: w.r.IntN(6) > 0}
		if d.HasTopology {
			d.NUMA = topology.NewNUMASet(topology.NUMAID(w.r.IntN(nodes)))
			if w.r.IntN(4) == 0 {
				d.NUMA = d.NUMA.With(topology.NUMAID(w.r.IntN(nodes)))
			}
		}
		p.Devices = append(p.Devices, d)
	}
	return p
}

func (w *world) request() placement.Request {
	w.next++
	req := placement.Request{UID: fmt.Sprint("pod", w.next), Guaranteed: w.r.IntN(4) > 0, PodLevel: w.r.IntN(10) == 0}
	for i := range w.r.IntN(3) {
		req.Containers = append(req.Containers, w.container(fmt.Sprint("init", i), pick(w.r, placement.Init, placement.Init, placement.Sidecar)))
	}
	for i := range 1 + w.r.IntN(2) {
		req.Containers = append(req.Containers, w.container(fmt.Sprint("app", i), placement.App))
	}
	if w.cfg.FeatureGates["PodLevelResourceManagers"] && w.r.IntN(2) == 0 {
		w.level(&req)
	}
	return req
}

// level gives the pod pod-level resources, mostly enough for its containers.
func (w *world) level(req *placement.Request) {
	var cpus placement.Peak[int64]
	memory := placement.Peaks[string]{}
	for i := range req.Containers {
		c := &req.Containers[i]
		if c.Guaranteed = c.MilliCPU > 0 && c.Bytes("memory") > 0 && w.r.IntN(3) > 0; !c.Guaranteed {
			continue
		}
		cpus.Add(c.Kind, c.MilliCPU)
		for _, m := range c.Memory {
			memory.Add(c.Kind, m.Resource, m.Bytes)
		}
	}
	req.PodLevel = true
	req.Level = placement.LevelRequest{Guaranteed: w.r.IntN(8) > 0, MilliCPU: cpus.Most() + int64(w.r.IntN(3)*1000)}
	for _, name := range []string{"hugepages-1Gi", "memory"} {
		sum := memory[name]
		req.Level.Memory = append(req.Level.Memory, placement.MemoryRequest{Resource: name, Bytes: sum.Most() + uint64(w.r.IntN(2))<<30})
	}
}

func (w *world) container(name string, kind placement.ContainerKind) placement.ContainerRequest {
	c := placement.ContainerRequest{Name: name, Kind: kind, MilliCPU: int64(w.r.IntN(6)) * 1000}
	if w.r.IntN(5) == 0 {
		c.MilliCPU += 500
	}
	if w.r.IntN(5) == 0 {
		c.Memory = append(c.Memory, placement.MemoryRequest{Resource: "hugepages-1Gi", Bytes: uint64(w.r.IntN(3)) << 30})
	}
	c.Memory = append(c.Memory, placement.MemoryRequest{Resource: "memory", Bytes: uint64(w.r.IntN(6<<10)) << 20})
	if w.r.IntN(3) == 0 {
		c.Devices = []placement.DeviceRequest{{Resource: "example.com/dev", Count: int64(w.r.IntN(4))}}
	}
	return c
}

// step carries out a random event. If the kubelet decided about a request, step returns the request
// with its verdict.
func (w *world) step() (placement.Request, placement.Decision, placement.Verdict) {
	req := w.request()
	var d placement.Decision
	v := placement.Decide(w.state, &req, &d)
	if v.OK() {
		w.state.Commit(&req, &d)
		w.pods = append(w.pods, req.UID)
		w.asked[req.UID] = req
	} else {
		reject(w.state, &req, &d)
	}
	if len(w.pods) > 0 {
		i := w.r.IntN(len(w.pods))
		switch w.r.IntN(4) {
		case 0:
			w.state.Release(w.pods[i])
			w.pods = append(w.pods[:i], w.pods[i+1:]...)
		case 1:
			w.state.Start(w.pods[i], nil)
		}
	}
	return req, d, v
}
