package nodestate

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
)

// Mark identifies a report of a node. Two Marks of a node show which report is newer. A Mark is
// comparable. The zero value means no report.
type Mark struct {
	uid types.UID
	// created is the time of the object's creation in seconds, by the API server's clock.
	created int64
	// observed is the time of the report in microseconds, by the agent's clock.
	observed int64
	sequence int64
}

func markOf(nt *v1alpha1.NodeTopology) Mark {
	return Mark{nt.UID, nt.CreationTimestamp.Unix(), nt.Status.ObservedTime.UnixMicro(), nt.Status.Sequence}
}

// Sequence returns the number that the agent gave the report.
func (m Mark) Sequence() int64 { return m.sequence }

// Follows reports whether this report is the report of the argument last or may be newer: it has a
// higher number, or its object is another object that was not created in an earlier second. If last
// is the zero value, the result is true. Two reports with the same number may differ, because an
// agent that continues from an older report uses numbers again. Then neither of them follows the
// other.
func (m Mark) Follows(last Mark) bool {
	switch {
	case last == Mark{}:
		return true
	case m.uid != last.uid:
		return m.created >= last.created
	case m.sequence != last.sequence:
		return m.sequence > last.sequence
	default:
		return m.observed == last.observed
	}
}

// WentBack returns an error if the report does not follow the newest report, for example after a
// restore of the API server's data. A report that does not follow the newest report may be
// outdated. If the report follows, or has no Mark, WentBack returns nil.
func (r *Reading) WentBack(newest Mark) *Unusable {
	now := r.Mark
	if now == (Mark{}) || now.Follows(newest) {
		return nil
	}
	const confirmed = ", or a new heartbeat that confirms it"
	cause := &wire.FieldError{
		Object: "NodeTopology " + r.Node, Field: "status.sequence", Value: fmt.Sprint(now.sequence),
		Want: fmt.Sprint(newest.sequence, " or more", confirmed),
	}
	switch {
	case now.uid != newest.uid:
		cause.Field, cause.Value = "metadata.creationTimestamp", stamp(now.created)
		cause.Want = stamp(newest.created) + " or later" + confirmed
	case now.sequence == newest.sequence:
		cause.Want = fmt.Sprint("more than ", newest.sequence, ", the number of another report", confirmed)
	}
	return &Unusable{Reason: WentBack, Text: wentBackText, Cause: cause}
}

func stamp(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }
