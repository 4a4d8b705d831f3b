package gangs

import "time"

// Wait is the state of a gang or a pod that did not fit.
type Wait struct {
	// Why is the reason why it waits for a change of the cluster, or "".
	Why string
	// NotBefore is the earliest time of the next attempt.
	NotBefore time.Time

	stirs   uint64    // how often the cluster had changed when it was tried
	until   time.Time // when it is tried again whatever has changed
	reports time.Time // since when every attempt has found a node that waits for a report; zero: the last one found none
}

// Misfit is the event that a gang, or a pod, was tried and does not fit.
type Misfit struct {
	Why string
	// Tried is the number of changes in the cluster when the attempt began, and Stirs the number
	// now.
	Tried, Stirs uint64
	// Pause is the minimum time until the next attempt.
	Pause time.Duration
	// Lacking means that only capacity is missing, and no pod is evicted.
	Lacking bool
}

// ShortestPause is the minimum pause. LongestWait is the time after which it is tried again without
// a known change.
const (
	ShortestPause = 100 * time.Millisecond
	LongestWait   = 30 * time.Second
)

// Begin begins the waiting for a change, unless one has come since the attempt began.
func (w *Wait) Begin(e *Misfit, now time.Time) {
	w.Why, w.stirs, w.NotBefore, w.until = e.Why, e.Tried, now.Add(e.Pause), now.Add(LongestWait)
	w.Stir(e.Stirs)
}

// Stir ends the waiting for a change if the cluster has changed so often by now.
func (w *Wait) Stir(stirs uint64) {
	if w.stirs < stirs {
		w.Why = ""
	}
}

// Over ends the waiting for a change that has lasted too long, and reports whether nothing is
// awaited any more.
func (w *Wait) Over(now time.Time) bool {
	if !now.Before(w.until) {
		w.Why = ""
	}
	return w.Why == "" && !now.Before(w.NotBefore)
}

// ReportLimit is how long pending reports may prevent evictions without a break.
const ReportLimit = 30 * time.Second

// Patient reports whether evictions must still wait, because a report may show room. reports means
// that the attempt has found nodes that wait for a report. In a large cluster there may always be
// such nodes, so evictions are allowed once per ReportLimit.
func (w *Wait) Patient(reports bool, now time.Time) bool {
	switch {
	case !reports:
		w.reports = time.Time{}
		return false
	case w.reports.IsZero():
		w.reports = now
	case now.Sub(w.reports) >= ReportLimit:
		w.reports = now // this once: victims have left the API long before a report says so
		return false
	}
	return true
}
