package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/placement"
)

// TestAPodThatSomethingElseFailsKeepsItsBackOff: otherwise a webhook that is down would be called
// as fast as pods can be placed. Meanwhile other pods can use the place.
func TestAPodThatSomethingElseFailsKeepsItsBackOff(t *testing.T) {
	pod, other := pinned("x", 8), pinned("other", 4)
	f, h := attached(t, pod, other)
	h.onBind(func(*corev1.Binding) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("a webhook says no"))
	})
	one := on(pinned("one", 7), "n")
	f.admit(one)
	f.feed.ReportSeen(f.topology())
	f.feed.PodSeen(one, false)
	woken := f.wakes()
	state := f.reserve(pod)
	other.CreationTimestamp.Time = other.CreationTimestamp.AddDate(0, 0, 1) // so that which pod comes first does not matter
	f.want("the node is full", other, ledger.Refused)
	if s := f.Bind(t.Context(), state, pod, "n"); s.IsSuccess() {
		t.Fatal("bound")
	}
	f.Unreserve(t.Context(), state, pod, "n")
	if names := <-woken; fmt.Sprint(names) != "[other]" {
		t.Errorf("%v woken, want the one that waits for the place", names)
	}
	f.waiters.Done(uidOf(other))
	f.feed.ReportSeen(f.topology())
	if len(woken) > 0 {
		t.Errorf("%v woken", <-woken)
	}
	if f.clock.HasWaiters() || f.waiters.Len() > 0 {
		t.Error("it is to be woken before its back-off is over")
	}
}

// TestAPodThatReserveCannotWrite is not tried again, because every attempt would end in the same
// way.
func TestAPodThatReserveCannotWrite(t *testing.T) {
	wordy := pinned("wordy", 1)
	wordy.Annotations = map[string]string{"example.com/notes": strings.Repeat("x", 256<<10-100)}
	f, _ := attached(t, wordy)
	woken := f.wakes()
	state := newCycleData()
	if _, s := f.PreFilter(t.Context(), state, wordy, nil); !s.IsSuccess() {
		t.Fatal(s)
	}
	s := f.Reserve(t.Context(), state, wordy, "n")
	if s.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(s.Message(), "default/wordy") || !strings.Contains(s.Message(), "262144") {
		t.Errorf("%v %.300q", s.Code(), s.Message())
	}
	f.Unreserve(t.Context(), state, wordy, "n")
	if c := f.table.Named("n").Account().View().Census(); c.Reserved > 0 {
		t.Errorf("%+v", c)
	}
	if len(woken) > 0 || f.clock.HasWaiters() || f.waiters.Len() > 0 {
		t.Error("it is tried again")
	}
}

// TestAPodThatBindRefusesWaits for a limited time. It need not wait for a report.
func TestAPodThatBindRefusesWaits(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	woken := f.wakes()
	p := pinned("x", 4)
	state := newCycleData()
	state.Write(cycleKey, f.attempt(p, requestOf(t, p)))
	if s := f.Plugin.Reserve(t.Context(), state, p, "n"); !s.IsSuccess() {
		t.Fatal(s)
	}
	if f.waiters.Len() != 0 {
		t.Fatal("it waits although it has a node")
	}
	cycleOf(state).refuse(nil)
	f.Unreserve(t.Context(), state, p, "n")
	if len(woken) > 0 {
		t.Fatalf("%v woken at once: it is its own place that is free", <-woken)
	}
	f.clock.Step(wake.RoundPause)
	if names := <-woken; fmt.Sprint(names) != "[x]" {
		t.Errorf("%v woken", names)
	}
	if c := f.table.Named("n").Account().View().Census(); f.waiters.Len() != 1 || c.Reserved != 0 {
		t.Errorf("%d pods wait, %+v", f.waiters.Len(), c)
	}
}

// TestAPodThatReserveRefusesIsTriedAgain: Filter found nodes that admit it, and these may not
// change.
func TestAPodThatReserveRefusesIsTriedAgain(t *testing.T) {
	f := newFixture(t)
	f.feed.ReportSeen(f.topology())
	woken := f.wakes()
	n := f.table.Named("n")
	for i, full := 0, false; !full; i++ { // other pods are faster
		other := pinned(fmt.Sprintf("fast%d", i), 4)
		a := n.Account().Reserve(f.wait(other), new(placement.Decision))
		f.waiters.Done(uidOf(other))
		full = !a.OK()
	}
	p := pinned("x", 4)
	state := newCycleData()
	state.Write(cycleKey, f.attempt(p, requestOf(t, p)))
	if s := f.Plugin.Reserve(t.Context(), state, p, "n"); s.IsSuccess() {
		t.Fatal("a full node takes it")
	}
	f.Unreserve(t.Context(), state, p, "n")
	if len(woken) > 0 {
		t.Fatalf("%v woken at once, and at once again", <-woken)
	}
	f.clock.Step(wake.RoundPause)
	if names := <-woken; fmt.Sprint(names) != "[x]" {
		t.Errorf("%v woken", names)
	}
	if f.waiters.Done(uidOf(p)); f.clock.HasWaiters() {
		t.Error("it goes on for ever")
	}
}
