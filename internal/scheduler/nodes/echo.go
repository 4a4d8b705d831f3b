package nodes

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// soonShown is the time after a decision within which the watch of pods should show its
	// Binding. A kubelet needs longer to stop a deleted pod. So if the watch is this fast, the
	// scheduler learns of every deletion before a kubelet can give the freed CPUs to a new pod.
	soonShown = 200 * time.Millisecond
	// slowFor is the time for which the watch counts as slow after a late Binding.
	slowFor = 5 * time.Second
	// lostAfter is the time after which a Binding that the watch has not shown counts as lost. A
	// lost Binding does not make the watch slow.
	lostAfter = time.Minute
)

// Prompt reports whether the watch of pods is fast: it showed each Binding of the last slowFor
// within soonShown, and no Binding is overdue. If the watch is slow, the scheduler may not know yet
// that a pod on the node was deleted, and the kubelet may give that pod's CPUs to the next pod. So
// no decision promises particular CPUs while the watch is slow.
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

// shown ends the wait for the event that shows a Binding, and records whether the event was late.
// It returns false if no Binding of the pod was expected.
func (f *Feed) shown(uid types.UID) (post, bool) {
	v, ok := f.posted.LoadAndDelete(uid)
	if !ok {
		return post{}, false
	}
	p := v.(post)
	f.note(&p)
	return p, true
}

// Again records that the Binding of a pod is sent once more. Prompt ignores a repeated Binding,
// even if it is late. Otherwise a user who keeps changing one pod, so that its Binding must be
// repeated, could prevent promises of particular CPUs to all pods.
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

// note sets f.slow to the current time if the Binding is late.
func (f *Feed) note(p *post) {
	if now := f.Table.clock.Now(); !p.at.IsZero() && now.Sub(p.at) >= soonShown {
		f.slow.Store(&now)
	}
}
