package agent

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// next is the time until the next step.
type next struct{ after time.Duration }

// settled means that the next step follows at the next sign of a change, or at the next rescan.
var settled = next{}

// The function again returns the next step that follows after the given time, or earlier if there
// is a sign of a change.
func again(after time.Duration) next { return next{after} }

// backoff increases the time between attempts that fail.
type backoff = wait.Backoff

func newBackoff() backoff {
	return backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

// newLook returns the backoff for reading from the kubelet and the machine. Its intervals are
// short, because a starting kubelet does not answer at first.
func newLook() backoff {
	return backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 10, Cap: 500 * time.Millisecond}
}

// errNoNode means that the node has not been registered yet.
var errNoNode = errors.New("the Node object does not exist yet")
