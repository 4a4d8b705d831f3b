package nodestate

import (
	"errors"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// Unusable explains why the scheduler cannot use a node for pods that might be pinned.
type Unusable struct {
	// Reason is a constant below, or the reason of the report's condition Ready.
	Reason string
	// Text explains the reason to users. All programs use the same text.
	Text string
	// Cause names the object, the field and the value, or is nil.
	Cause error
}

func (u *Unusable) Error() string { return u.Text }

// Unwrap returns the cause.
func (u *Unusable) Unwrap() error { return u.Cause }

// The reasons that do not come from the condition Ready.
const (
	// NoReport means that the node has no NodeTopology.
	NoReport = "NoReport"
	// NoSuchNode means that there is a NodeTopology but no Node.
	NoSuchNode = "NoSuchNode"
	// Silent means that the agent has sent no report and no heartbeat for too long.
	Silent = "Silent"
	// Malformed: the NodeTopology contradicts itself, or has values that this release does not
	// know.
	Malformed = "Malformed"
	// Unsupported: Berth cannot predict a kubelet with this configuration.
	Unsupported = "Unsupported"
	// OtherRelease: another release of Berth wrote the NodeTopology in another format.
	OtherRelease = "OtherRelease"
	// WentBack means that the report does not follow the newest known report (Mark.Follows), so it
	// may be outdated.
	WentBack = "WentBack"
)

const wentBackText = "its report is older than the one before, and its agent has not confirmed it yet"

// NotReported returns the Unusable for a node without a report.
func NotReported() *Unusable { return &Unusable{Reason: NoReport, Text: wire.NoReport} }

// FellSilent returns the Unusable for a node whose agent is Silent.
func FellSilent() *Unusable { return &Unusable{Reason: Silent, Text: wire.NoSignOfLife} }

// Stray returns the Unusable for a NodeTopology without a Node.
func Stray(node string) *Unusable {
	return &Unusable{Reason: NoSuchNode, Text: "there is a NodeTopology but no Node " + node}
}

// unusable returns the Unusable for a node whose report could not be read because of err.
func unusable(err error) *Unusable {
	u := &Unusable{Reason: Malformed, Text: err.Error(), Cause: err}
	var config *placement.ConfigError
	var ready *wire.NotReadyError
	var other *wire.OtherFormError
	switch {
	case errors.As(err, &other):
		u.Reason = OtherRelease
	case errors.As(err, &ready):
		u.Reason = ready.Reason
	case errors.As(err, &config):
		u.Reason = Unsupported
	}
	return u
}
