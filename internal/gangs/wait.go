package gangs

import "time"

// Wait is what a gang or a pod that did not fit waits for.
type Wait struct {
	// Why is why it waits for a change of the cluster; "" if it does not.
	Why string
	// NotBefore is when it is tried again at the earliest.
	NotBefore time.Time

	stirs   uint64    // how often the cluster had changed when it was tried
	until   time.Time // when it is tried again whatever has changed
	reports time.Time // since when every attempt has found a node that waits for a report; zero: the last one found none
}

// Misfit is the event that a gang, or a pod, was tried and does not fit.
type Misfit struct {
	Why string
	// Tried is how often the cluster had changed when the attempt began, Stirs how often by now.
	Tried, Stirs uint64
	// Pause is how long it is not tried, whatever changes.
	Pause time.Duration
	// Lacking: nothing but capacity is missing, and nobody is evicted.
	Lacking bool
}

// ShortestPause is how long it is not tried at least, and LongestWait after how long it is tried
// though nothing is known to have changed.
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

// ReportLimit is how long in a row reports that nodes wait for keep others from being evicted.
const ReportLimit = 30 * time.Second

// Patient reports whether nobody is evicted yet, because a report may show room: reports says that
// the attempt has found such nodes. On a large cluster some may always wait, so that others may be
// evicted once in a ReportLimit.
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
