// Package sim imitates a kubelet. The engine takes the place of the kubelet's managers. test/replay
// and many tests use the package.
//
// The package does not import the ledger, so that the ledger's own tests can use it.
package sim

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// Kubelet admits pods one after another, in the order of the calls, and releases a pod's resources
// when the pod has ended. It is not safe for concurrent use.
type Kubelet struct {
	// State has the allocations of the kubelet. A caller that changes it changes the kubelet.
	State *placement.State

	model  *placement.Model
	active []*Admission // active pods in the order of their first admission
	ended  []string     // UIDs of pods whose containers have ended and whose resources are not yet released
}

// Admission is the result of admitting a pod. It does not change.
type Admission struct {
	Request placement.Request
	Verdict placement.Verdict
	// Decision has the pod's resources. If the pod is refused, these are the resources that its
	// containers got before the refusal.
	Decision placement.Decision
	// Random means that the admission depends on chance. Another kubelet may decide otherwise.
	Random bool
}

// NewKubelet returns a kubelet without pods.
func NewKubelet(m *placement.Model) *Kubelet { return &Kubelet{State: m.NewState(), model: m} }

// Clone returns an independent copy of the kubelet.
func (k *Kubelet) Clone() *Kubelet {
	c := *k
	c.State, c.active, c.ended = k.State.Clone(), slices.Clone(k.active), slices.Clone(k.ended)
	return &c
}

// Admit releases ended pods, decides about a pod and records its resources. An active pod is
// admitted again, as after a restart. A refused pod keeps nothing and is no longer active. As in
// the kubelet, the containers before the refused container get resources, which are then released.
// This influences later admissions.
func (k *Kubelet) Admit(r *placement.Request) *Admission { return k.AdmitAmid(r, nil) }

// AdmitAmid does the same as Admit, while other pods end during the admission.
func (k *Kubelet) AdmitAmid(r *placement.Request, meanwhile []placement.Meanwhile) *Admission {
	k.ReleaseEnded()
	a := &Admission{Request: *r}
	if i := k.find(r.UID); i >= 0 {
		k.active[i] = a
	} else {
		k.active = append(k.active, a)
	}
	a.Verdict = placement.DecideAmid(k.State, &a.Request, meanwhile, &a.Decision)
	a.Random = a.Verdict.Random
	a.Random = k.release(meanwhile) || a.Random
	k.State.CommitAmid(&a.Request, meanwhile, &a.Decision)
	if !a.Verdict.OK() {
		a.Random = k.Remove(r.UID) || a.Random
	}
	return a
}

// release releases the pods that end, and removes them from active. It reports whether the
// resulting state depends on chance.
func (k *Kubelet) release(meanwhile []placement.Meanwhile) (random bool) {
	for _, e := range meanwhile {
		if e.Container != "" {
			continue
		}
		random = k.mixed(e.UID) || random
		if i := k.find(e.UID); i >= 0 {
			k.active = slices.Delete(k.active, i, i+1)
		}
	}
	return random
}

// Active returns the last admission of a pod that is active, or nil.
func (k *Kubelet) Active(uid string) *Admission {
	if i := k.find(uid); i >= 0 {
		return k.active[i]
	}
	return nil
}

func (k *Kubelet) find(uid string) int {
	return slices.IndexFunc(k.active, func(a *Admission) bool { return a.Request.UID == uid })
}

// Start records that containers of a pod have started, in that order; without names, all of them.
func (k *Kubelet) Start(uid string, containers []string) { k.State.Start(uid, containers) }

// End records that the containers of a pod have ended. The kubelet releases their resources when it
// admits the next pod.
func (k *Kubelet) End(uid string) {
	if !k.Ended(uid) {
		k.ended = append(k.ended, uid)
	}
}

// Ended reports whether the pod has ended and its resources are not yet released.
func (k *Kubelet) Ended(uid string) bool { return slices.Contains(k.ended, uid) }

// ReleaseEnded releases the resources of ended pods.
func (k *Kubelet) ReleaseEnded() {
	for _, uid := range k.ended {
		k.Remove(uid)
	}
	k.ended = k.ended[:0]
}

// Remove releases a pod at once. It reports whether the result depends on chance.
func (k *Kubelet) Remove(uid string) (random bool) {
	random = k.mixed(uid)
	k.State.Release(uid)
	if i := k.find(uid); i >= 0 {
		k.active = slices.Delete(k.active, i, i+1)
	}
	return random
}

// mixed reports whether the result of releasing the pod depends on chance.
func (k *Kubelet) mixed(uid string) bool {
	held, _ := k.State.Pod(uid)
	return Mixed(held)
}

// Restart restarts the kubelet from its checkpoints and admits its pods in the order of their first
// admission. It returns the admissions, and whether they depend on chance. If the kubelet does not
// start, the error is a *RestartError.
func (k *Kubelet) Restart() (again []*Admission, random bool, err error) {
	random = Mixed(k.State.Snapshot().Pods...)
	if err := Restart(k.model, k.State); err != nil {
		return nil, random, err
	}
	for _, before := range slices.Clone(k.active) {
		a := k.Admit(&before.Request)
		again, random = append(again, a), random || a.Random
	}
	return again, random, nil
}
