package agent

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// evidenceByTime is the time for which an ended pod counts as active if the agent cannot use the
// PodResources API. It is much longer than the time that the kubelet needs to clean up a pod whose
// phase is terminal.
const evidenceByTime = 15 * time.Second

// outcome is the result of makeReport: the content of a report, and the pods whose states may
// change soon.
type outcome struct {
	snapshot placement.Snapshot
	pods     []wire.ReportedPod
	// order holds the kubelet's UIDs of snapshot.Pods.
	order []string
	// arriving are pods that the kubelet is admitting. The report may lack a part of their
	// resources.
	arriving []string
	// over are the pods that the kubelet no longer runs and whose decisions koordlet carried out.
	over []string
	// ending are pods that have ended but may still be active. The agent must check them again
	// soon.
	ending []string
}

// makeReport computes the content of a report from a sighting. It is a pure function. It returns an
// error if a report cannot represent the checkpoints.
func makeReport(s *sighting) (outcome, error) {
	snap, err := s.books.state.Snapshot()
	if err != nil {
		return outcome{}, err
	}
	if err := s.unknownWhole(snap.Pods); err != nil {
		return outcome{}, err
	}
	var out outcome
	held := map[string]placement.PodAllocation{}
	for _, p := range snap.Pods {
		held[p.UID] = p
	}
	s.addObeyed(held)
	r := reporter{sighting: s, alive: map[string]int{}}
	for _, f := range s.pods {
		if f.ended.IsZero() || s.platform.listsAll && f.apiUID != "" {
			r.alive[f.key()]++
		}
	}
	states := map[string]v1alpha1.PodState{}
	uids := make([]string, 0, len(held))
	for uid := range s.pods {
		if _, holds := held[uid]; !holds && r.admittedAlive(uid) {
			uids = append(uids, uid)
		}
	}
	for uid := range held {
		state, wait := r.stateOf(uid)
		switch wait {
		case arriving:
			out.arriving = append(out.arriving, uid)
		case ending:
			out.ending = append(out.ending, uid)
		}
		if state == v1alpha1.PodEnded && s.entrusts(uid) {
			out.over = append(out.over, uid)
			continue
		}
		states[uid] = state
		uids = append(uids, uid)
	}
	order(uids, s.history.last, s.pods)
	snap.Pods = nil
	for _, uid := range uids {
		pod, more := r.pod(uid, held[uid])
		more.State = states[uid]
		snap.Pods = append(snap.Pods, pod)
		out.pods = append(out.pods, more)
	}
	slices.Sort(out.arriving)
	slices.Sort(out.ending)
	out.snapshot, out.order = snap, uids
	s.shareOut(&out)
	return out, nil
}

// unknownWhole returns an error if the checkpoints have pod-level resources, but the kubelet's
// configuration does not support them. The kubelet would neither use nor free these resources.
func (s *sighting) unknownWhole(pods []placement.PodAllocation) error {
	if s.platform.model == nil || s.platform.model.KnowsWholes() {
		return nil
	}
	for i := range pods {
		if w := pods[i].Whole; w != nil {
			wrong := &kubeletstate.Error{File: kubeletstate.CPUFile, Field: "podEntries", Value: pods[i].UID, Want: "none: the kubelet's feature gate PodLevelResourceManagers is off"}
			if w.CPUs.IsEmpty() {
				wrong.File = kubeletstate.MemoryFile
			}
			return wrong
		}
	}
	return nil
}

// obeys reports whether the agent carries out the decision about the pod.
func (s *sighting) obeys(uid string) bool {
	return s.obeyed != nil && !s.obeyed.koordlet && len(s.obeyed.pods[uid]) > 0
}

// entrusts reports whether koordlet carries out the decision about the pod. The kubelet's
// checkpoints then have no CPUs and no memory of the pod.
func (s *sighting) entrusts(uid string) bool {
	return s.obeyed != nil && s.obeyed.koordlet && len(s.obeyed.pods[uid]) > 0
}

// addObeyed adds the resources of the decisions that the agent or koordlet carries out.
func (s *sighting) addObeyed(held map[string]placement.PodAllocation) {
	if s.obeyed == nil {
		return
	}
	for uid, containers := range s.obeyed.pods {
		p := held[uid]
		p.UID, p.Generation = uid, s.obeyed.generations[uid]
		for _, c := range containers {
			if at := slices.IndexFunc(p.Containers, func(o placement.ContainerAllocation) bool { return o.Name == c.Name }); at >= 0 {
				c.Devices = slices.Concat(c.Devices, p.Containers[at].Devices) // held has devices of other resources
				slices.SortFunc(c.Devices, func(a, b placement.DeviceAllocation) int { return cmp.Compare(a.Resource, b.Resource) })
			}
			p.Containers = withContainer(slices.Clone(p.Containers), c)
		}
		held[uid] = p
	}
}

// shareOut computes the shared CPUs of the report from the pods' resources, if Berth decides.
func (s *sighting) shareOut(out *outcome) {
	if s.obeyed == nil || s.platform.model == nil {
		return
	}
	if state, err := s.platform.model.StateOf(&placement.Snapshot{Pods: out.snapshot.Pods}); err == nil {
		out.snapshot.SharedCPUs = state.SharedCPUs()
	}
}

type reporter struct {
	*sighting
	// alive counts the pods in the API that have not ended, by namespace/name. If the kubelet's
	// list also has ended pods until they are deleted (platform.listsAll), alive counts them too.
	alive map[string]int
}

// pending is the reason why a pod's state may change soon, or steady.
type pending int

const (
	steady pending = iota
	arriving
	ending
)

// stateOf returns the state of a pod that holds resources.
func (r *reporter) stateOf(uid string) (v1alpha1.PodState, pending) {
	f, known := r.pods[uid]
	switch {
	case r.obeys(uid) && known:
		return "", steady // the pod's sandbox has not stopped
	case r.obeys(uid):
		return v1alpha1.PodUnknown, steady
	case !known:
		return r.stateOfStranger(uid)
	case f.ended.IsZero() && r.admitted(uid):
		return "", steady
	case f.ended.IsZero():
		return v1alpha1.PodUnknown, arriving
	case r.booting || r.maybeActive(&f):
		return "", ending
	case f.refused || !f.admitted && !r.admitted(uid):
		return v1alpha1.PodRejected, steady
	}
	return v1alpha1.PodEnded, steady
}

// maybeActive reports whether a pod that has ended may still be on the kubelet's list of active
// pods.
func (r *reporter) maybeActive(f *podFacts) bool {
	if r.active == nil || r.platform.listsAll && f.apiUID != "" {
		return r.now.Sub(f.ended) < evidenceByTime
	}
	return r.active[f.key()] > r.alive[f.key()]
}

// stateOfStranger returns the state of a pod that is not in the API. If the API has all active pods
// of the kubelet, this pod has ended. Otherwise the API may not show the pod yet.
func (r *reporter) stateOfStranger(uid string) (v1alpha1.PodState, pending) {
	first, seen := r.history.firstSeen[uid]
	fresh := !seen || r.now.Sub(first) < strangerPatience
	if fresh {
		return v1alpha1.PodUnknown, arriving
	}
	if r.booting {
		return v1alpha1.PodUnknown, ending
	}
	if r.active == nil {
		return v1alpha1.PodUnknown, steady
	}
	for key, n := range r.active {
		if n > r.alive[key] {
			return v1alpha1.PodUnknown, ending
		}
	}
	return v1alpha1.PodEnded, steady
}

// strangerPatience is the time for which a pod may be in the checkpoints before the API shows it.
const strangerPatience = time.Second

// pod returns the report's entry for a pod. It puts the containers into the kubelet's order of
// allocation, and sets their kinds.
func (r *reporter) pod(uid string, held placement.PodAllocation) (placement.PodAllocation, wire.ReportedPod) {
	f, known := r.pods[uid]
	out := placement.PodAllocation{UID: uid, Generation: held.Generation, Whole: held.Whole}
	var more wire.ReportedPod
	if known && f.apiUID != "" {
		out.UID = f.apiUID
	}
	if len(held.Containers) == 0 {
		return out, more
	}
	more.Namespace, more.Name = f.namespace, f.name
	rest := slices.Clone(held.Containers)
	for _, c := range f.containers {
		i := slices.IndexFunc(rest, func(h placement.ContainerAllocation) bool { return h.Name == c.name })
		if i < 0 {
			continue
		}
		rest[i].Kind = c.kind
		out.Containers = append(out.Containers, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	out.Containers = append(out.Containers, rest...)
	return out, more
}
