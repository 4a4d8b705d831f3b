package agent

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// next tells when to step again.
type next struct{ after time.Duration }

// settled: with the next sign of a change, or the next rescan.
var settled = next{}

// again: after this time, if nothing happens before.
func again(after time.Duration) next { return next{after} }

// backoff spreads attempts that fail.
type backoff = wait.Backoff

func newBackoff() backoff {
	return backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

// newLook spreads attempts to ask programs on this node. A kubelet that starts answers late, so it
// is asked often.
func newLook() backoff {
	return backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 10, Cap: 500 * time.Millisecond}
}

// errNoNode means that the node has not been registered yet.
var errNoNode = errors.New("the Node object is not there yet")
