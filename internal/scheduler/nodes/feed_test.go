package nodes

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/textlogger"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/wake"
)

// TestContendedIsLogged checks the text by which the demo counts contended promises in the
// scheduler's log.
func TestContendedIsLogged(t *testing.T) {
	f := newFixture(t)
	var log bytes.Buffer
	f.Logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	for _, l := range []*ledger.PromiseOutcome{nil, {UID: "x", Exact: true, Contended: true}, {UID: "y", Exact: true, Kept: true}} {
		f.settle(f.table.Named("n"), l)
	}
	if got := strings.Count(log.String(), ` outcome="contended"`); got != 1 {
		t.Errorf("%d lines say outcome=\"contended\", want 1:\n%s", got, log.String())
	}
}

// TestWhoHasANodeWantsNone: a pod for which nothing is pinned may have wanted a node while there
// was one on which Berth decides.
func TestWhoHasANodeWantsNone(t *testing.T) {
	f := newFixture(t)
	pod := pinned("x", 1)
	pod.Status.QOSClass = corev1.PodQOSBurstable
	c := f.table.Candidate(pod, requestOf(t, pod))
	f.Waiters.Add(wake.Pod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}, &c)
	f.PodSeen(on(pod, "n"), false)
	if f.Waiters.Len() != 0 {
		t.Error("it wants a node still")
	}
}
