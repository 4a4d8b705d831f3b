// Package made creates common inputs of tests: the model of a kubelet on a machine, and the account
// of a node.
package made

import (
	"testing"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
	"github.com/berth-dev/berth/topology/shapes"
)

// Model returns the model of a kubelet with this configuration, on the machine of a machine string.
func Model(t testing.TB, machine string, config placement.Config) *placement.Model {
	t.Helper()
	return ModelOf(t, View(t, shapes.Machine(machine)), config)
}

// View returns a kubelet's view of the machine.
func View(t testing.TB, m *topology.Machine) *placement.KubeletView {
	t.Helper()
	view, err := placement.ViewOf(m)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// ModelOf returns the model of a kubelet with this view and this configuration.
func ModelOf(t testing.TB, view *placement.KubeletView, config placement.Config) *placement.Model {
	t.Helper()
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
