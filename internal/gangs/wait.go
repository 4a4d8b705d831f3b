package gangs

import "time"

// Wait records how long a gang or a pod that did not fit waits until it is tried again.
type Wait struct {
	// Why is the reason of the last misfit. It is "" if the gang or pod does not wait for a change
	// of the cluster.
	Why string
	// NotBefore is the earliest time of the next attempt.
	NotBefore time.Time

	stirs   uint64    // the number of changes of the cluster when the last attempt began
	until   time.Time // the time of the next attempt even without a change
	reports time.Time // when attempts began to find nodes that wait for a report, or zero
}

// Misfit is the event that an attempt found no nodes for a gang or a late member.
type Misfit struct {
	Why string
	// Tried is the number of changes of the cluster (Stirred) when the attempt began. Stirs is the
	// number now.
	Tried, Stirs uint64
	// Pause is the minimum time until the next attempt.
	Pause time.Duration
	// Lacking means that only capacity is missing, and that no pod is evicted for the gang.
	Lacking bool
}

// ShortestPause is the minimum pause. LongestWait is the time after which a gang or a pod is tried
// again even without a known change.
const (
	ShortestPause = 100 * time.Millisecond
	LongestWait   = 30 * time.Second
)

// Begin begins the wait for a change, unless the cluster has changed since the attempt began.
func (w *Wait) Begin(e *Misfit, now time.Time) {
	w.Why, w.stirs, w.NotBefore, w.until = e.Why, e.Tried, now.Add(e.Pause), now.Add(LongestWait)
	w.Stir(e.Stirs)
}

// Stir ends the wait for a change if stirs, the number of changes now, is greater than at the last
// attempt.
func (w *Wait) Stir(stirs uint64) {
	if w.stirs < stirs {
		w.Why = ""
	}
}

// Over reports whether the gang or the pod may be tried. It ends a wait for a change after
// LongestWait.
func (w *Wait) Over(now time.Time) bool {
	if !now.Before(w.until) {
		w.Why = ""
	}
	return w.Why == "" && !now.Before(w.NotBefore)
}

// ReportLimit is the maximum time for which evictions wait for reports.
const ReportLimit = 30 * time.Second

// Patient reports whether evictions must wait because a report may show room. The parameter reports
// means that the attempt has found nodes that wait for a report. Patient still returns false once
// per ReportLimit, because in a large cluster some node may always wait for a report.
func (w *Wait) Patient(reports bool, now time.Time) bool {
	switch {
	case !reports:
		w.reports = time.Time{}
		return false
	case w.reports.IsZero():
		w.reports = now
	case now.Sub(w.reports) >= ReportLimit:
		w.reports = now // wait again, because reports show the effect of evictions much later
		return false
	}
	return true
}
