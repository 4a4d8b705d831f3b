package placement_test

import (
	"fmt"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// A machine with two NUMA nodes of two cores each. The kubelet reserves CPU 0.
func Example() {
	view := &placement.KubeletView{NumCores: 4, NumSockets: 1, Nodes: []placement.ViewNode{
		{ID: 0, MemoryBytes: 8 << 30, Cores: []placement.ViewCore{{ID: 0, Threads: []topology.CPUID{0}}, {ID: 1, Threads: []topology.CPUID{1}}}},
		{ID: 1, MemoryBytes: 8 << 30, Cores: []placement.ViewCore{{ID: 2, Threads: []topology.CPUID{2}}, {ID: 3, Threads: []topology.CPUID{3}}}},
	}}
	model, err := placement.NewModel(view, placement.Config{
		CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := model.NewState()
	for _, name := range []string{"first", "second"} {
		pod := placement.Request{UID: name, Guaranteed: true, Containers: []placement.ContainerRequest{{Name: "main", MilliCPU: 2000}}}
		var decision placement.Decision
		if verdict := placement.Decide(state, &pod, &decision); !verdict.OK() {
			fmt.Println(name+":", placement.Explain(state, &pod))
			continue
		}
		state.Commit(&pod, &decision)
		fmt.Println(name+": CPUs", decision.Containers[0].CPUs)
	}
	// Output:
	// first: CPUs 2-3
	// second: NUMA 0 has 1 free CPU (2 needed), NUMA 1 has 0 (TopologyAffinityError)
}
