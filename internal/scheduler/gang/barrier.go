package gang

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// barrier lets members that wait in Permit pass, or rejects them. It also makes a member wait
// before its Binding until the node has admitted the members of earlier waves. barrier handles
// single members, not groups. A caller that holds the book's lock may take the barrier's lock, but
// not the reverse.
type barrier struct {
	clock clock.WithDelayedExecution
	// waiting is Options.Waiting.
	waiting func(uid types.UID) fwk.WaitingPod

	mu sync.Mutex
	// waves is the channel on which members wait for their waves. The next call of stir closes it
	// and sets waves to nil.
	waves chan struct{}
	// again has the functions that callAgain calls before the next scheduling cycle.
	again []func()
}

// Name is the name of the plugin under which members wait in Permit.
const Name = "Berth"

// allow lets waiting members pass Permit. The caller must not hold the book's lock.
func (b *barrier) allow(uids []types.UID) {
	for _, uid := range uids {
		if w := b.waiting(uid); w != nil {
			w.Allow(Name)
		}
	}
}

// reject rejects members that wait in Permit. The caller must not hold the book's lock.
func (b *barrier) reject(uids []types.UID, why string) {
	for _, uid := range uids {
		if w := b.waiting(uid); w != nil {
			w.Reject(Name, "the plan of its gang was dropped: "+why)
		}
	}
}

// nowAndAgain calls the function do now, in a goroutine, and once more before the next scheduling
// cycle. The second call reaches a member whose Permit has already returned, but which does not
// wait yet: the framework makes it wait within the same cycle (prepareForBindingCycle in
// pkg/scheduler/schedule_one.go).
func (b *barrier) nowAndAgain(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.again = append(b.again, do)
	go do()
}

// callAgain calls and removes the functions of again. Follow calls it between two scheduling
// cycles.
func (b *barrier) callAgain() {
	b.mu.Lock()
	again := b.again
	b.again = nil
	b.mu.Unlock()
	for _, do := range again {
		do()
	}
}

// awaitWave returns these errors if a member stops waiting for its wave.
var (
	errWaveOver = errors.New("another member of the gang, which the node must admit first, has failed, or the plan was dropped")
	errWaveLate = errors.New("the members of the gang that must be admitted first did not appear in the node's report in time")
)

// awaitWave waits until the node has reported the members of earlier waves (ledger.Candidate.Wave).
// It returns an error if the deadline passes first, if at.over is closed, or if ctx ends.
func (b *barrier) awaitWave(ctx context.Context, at *place, deadline time.Time) error {
	limit := b.clock.NewTimer(max(0, deadline.Sub(b.clock.Now())))
	defer limit.Stop()
	for {
		stirred := b.nextStir()
		if at.account.View().Due(string(at.uid)) {
			return nil
		}
		select {
		case <-stirred:
		case <-at.over:
			return errWaveOver
		case <-limit.C():
			return errWaveLate
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nextStir returns a channel that the next call of stir closes.
func (b *barrier) nextStir() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waves == nil {
		b.waves = make(chan struct{})
	}
	return b.waves
}

// stir makes the members that wait for their waves check again.
func (b *barrier) stir() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waves != nil {
		close(b.waves)
		b.waves = nil
	}
}
