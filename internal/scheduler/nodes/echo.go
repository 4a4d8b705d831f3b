package nodes

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// soonShown is how soon after its decision the watch of pods should show a Binding. A kubelet
	// takes longer to stop a pod that is deleted, so a deletion that comes before a Binding is
	// known in time if the watch is as quick as this.
	soonShown = 200 * time.Millisecond
	// slowFor is how long one Binding that was shown later counts.
	slowFor = 5 * time.Second
	// lostAfter is how long a Binding that no event shows is taken to be late rather than lost.
	lostAfter = time.Minute
)

// Prompt reports whether the watch of pods shows Bindings without delay: each of the last seconds
// was shown soon after its decision, and none is overdue. Otherwise a decision cannot promise CPUs,
// because a pod on the node may have been deleted without the scheduler's knowledge, and the
// kubelet may give its CPUs to the next pod.
func (f *Feed) Prompt() bool {
	now := f.Table.clock.Now()
	if last := f.slow.Load(); last != nil && now.Sub(*last) < slowFor {
		return false
	}
	prompt := true
	f.posted.Range(func(_, v any) bool {
		age := now.Sub(v.(post).at)
		prompt = age < soonShown || age > lostAfter
		return prompt
	})
	return prompt
}

// shown ends the wait for the event that shows a Binding, and notes if it came late.
func (f *Feed) shown(uid types.UID) (post, bool) {
	v, ok := f.posted.LoadAndDelete(uid)
	if !ok {
		return post{}, false
	}
	p := v.(post)
	f.note(&p)
	return p, true
}

// Again records that the Binding of a pod is sent once more. It then no longer counts for Prompt,
// because anyone who can write the pod can make its Binding fail again and again.
func (f *Feed) Again(uid types.UID) {
	v, ok := f.posted.Load(uid)
	if !ok {
		return
	}
	p := v.(post)
	f.note(&p)
	p.at = time.Time{}
	f.posted.CompareAndSwap(uid, v, p)
}

// note notes if a Binding has taken long.
func (f *Feed) note(p *post) {
	if now := f.Table.clock.Now(); !p.at.IsZero() && now.Sub(p.at) >= soonShown {
		f.slow.Store(&now)
	}
}
