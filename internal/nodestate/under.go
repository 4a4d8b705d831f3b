package nodestate

import (
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Under returns a reading of the node with another machine or configuration: the function alter
// changes a copy of the spec. If the argument empty is true, the new reading has no pods, and has
// the devices that the function devices returns. Otherwise it keeps the pods and devices of the
// report. The error explains why the node cannot have this machine or configuration. r must be
// usable.
func (r *Reading) Under(alter func(*wire.NodeSpec) error, empty bool, devices func() []placement.DevicePool) (*Reading, error) {
	spec := r.Kind.Spec
	if err := alter(&spec); err != nil {
		return nil, err
	}
	offered := r.Kind.offered
	var pools []placement.DevicePool
	if empty {
		pools = devices()
		offered = wire.Decided(pools)
	}
	kind, err := kindOf(spec, offered, r.Kind.providers)
	if err != nil {
		return nil, err
	}
	kind.source, kind.coarse = r.Kind.source, r.Kind.coarse
	out, report := *r, *r.Report
	out.Kind, out.Report = kind, &report
	told := fates(&report)
	if empty {
		report.Snapshot = kind.Model.NewState().Snapshot()
		report.Snapshot.Devices, report.Pods, told = pools, nil, nil
	}
	if out.State, err = ledger.NewReport(report.Sequence, kind.Model, &report.Snapshot, told); err != nil {
		return nil, err
	}
	out.State.Amounts, out.State.Unsure = r.State.Amounts, r.State.Unsure
	return &out, nil
}
