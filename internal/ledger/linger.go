package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// lingerers are ended pods that an admission in progress may have seen. The kubelet's managers
// release such pods one after the other, and a report may show a state in which only some managers
// have done so.
type lingerers struct {
	// held is the state of the report plus all of these pods, or nil.
	held *placement.State
	uids []string
	// allocs are the allocations of pods that an earlier report listed and the last report does
	// not.
	allocs []placement.PodAllocation
	// lost means that the state with these pods cannot be computed.
	lost bool
}

// findLingerers finds the pods that the admission of the first posted pod may have seen although
// the report does not list them as alive. Call it before the report replaces the earlier one.
// admitted means that the report lists or rejects a posted pod: its admission is over and the next
// one may have begun.
func (f *facts) findLingerers(r *Report, admitted bool) {
	was := f.lingerers
	if f.lingerers = (lingerers{}); r.Amounts || r.Model.Decides() || len(f.pods.posted) == 0 {
		return
	}
	l := lingerers{held: r.held, uids: slices.Clone(r.lingering)}
	left := f.report.leftBefore(r)
	if !admitted {
		left = append(left, was.allocs...)
	}
	for i := range left {
		from := l.held
		if from == nil {
			from = r.state
		}
		before, free := from.Linger(&left[i])
		switch {
		case before != nil:
			l.held, l.uids = before, append(l.uids, left[i].UID)
			l.allocs = append(l.allocs, left[i])
		case free:
			l.lost = true
			l.allocs = append(l.allocs, left[i])
		}
	}
	f.lingerers = l
}

// mayBeginAdmission reports whether the kubelet may have begun to admit a pod before the last
// report, and no report shows the result yet. If it returns false, lingering pods affect no answer.
// The ledger then drops them without a new report, because a quiet node sometimes sends no report
// for days.
func mayBeginAdmission(pods map[string]*pod) bool {
	for _, p := range pods {
		if p.underway && (p.stage == posted || p.stage == afloat) {
			return true
		}
	}
	return false
}

// leftBefore returns the allocations of the pods that report r lists and report next does not.
func (r *Report) leftBefore(next *Report) (left []placement.PodAllocation) {
	if r == nil {
		return nil
	}
	tells := func(uid string) bool { return next.Has(uid) || slices.Contains(next.lingering, uid) }
	for _, uid := range r.order {
		if l := r.pods[uid]; l.holds && !tells(uid) {
			left = append(left, l.alloc)
		}
	}
	for _, uid := range r.lingering {
		if alloc, ok := r.held.Pod(uid); ok && !tells(uid) {
			left = append(left, alloc)
		}
	}
	return left
}
