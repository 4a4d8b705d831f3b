// Package made creates common inputs of tests: the model of a kubelet on a machine, and the account
// of a node.
package made

import (
	"testing"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Model is the model of a kubelet with this configuration, on the machine of a machine string.
func Model(t testing.TB, machine string, config placement.Config) *placement.Model {
	t.Helper()
	m, err := topology.Parse(machine)
	if err != nil {
		t.Fatal(err)
	}
	view, err := placement.ViewOf(m)
	if err != nil {
		t.Fatal(err)
	}
	model, err := placement.NewModel(view, config)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// Account is the account of a node that has reported this state.
func Account(t testing.TB, model *placement.Model, state *placement.State) *ledger.Node {
	t.Helper()
	snap := state.Snapshot()
	report, err := ledger.NewReport(1, model, &snap, nil)
	if err != nil {
		t.Fatal(err)
	}
	account := new(ledger.Ledger).Open(nil)
	account.Accept(report)
	return account
}
