package ledger_test

import (
	"fmt"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// A pod is reserved and bound, and the next report shows the promised CPUs.
func Example() {
	machine, _ := topology.Parse("package:2 numa:1 core:4 pu:1")
	view, _ := placement.ViewOf(machine)
	model, err := placement.NewModel(view, placement.Config{
		CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "single-numa-node",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	kubelet := model.NewState() // the node's real state
	report := func(sequence int64) *ledger.Report {
		snapshot := kubelet.Snapshot()
		r, err := ledger.NewReport(sequence, model, &snapshot, nil)
		if err != nil {
			fmt.Println(err)
		}
		return r
	}

	node := new(ledger.Ledger).Open(nil)
	node.Accept(report(1))
	pod := &placement.Request{UID: "a", Guaranteed: true, Containers: []placement.ContainerRequest{
		{Name: "main", MilliCPU: 4000},
	}}
	var decision placement.Decision
	answer := node.Reserve(&ledger.Candidate{Request: pod, Created: 10}, &decision)
	fmt.Println(answer.Outcome, decision.Containers[0].CPUs)

	posting, err := node.Post("a", &decision) // the Binding is written now
	fmt.Println("turn", posting.Turn, "exact", posting.Answer.Exact, err)

	kubelet.Commit(pod, &decision)
	for _, outcome := range node.Accept(report(2)) {
		fmt.Println(outcome.UID, "kept", outcome.Kept)
	}
	// Output:
	// admitted 4-7
	// turn 1 exact true <nil>
	// a kept true
}
