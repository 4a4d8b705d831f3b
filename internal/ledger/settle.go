package ledger

import (
	"slices"

	"github.com/berth-dev/berth/placement"
)

// hasStrangers reports whether a pod in the report has resources that the ledger did not expect.
// There are two cases. In the first case, neither the API nor the previous report has shown the
// pod: the watch of pods can lag behind the watch of reports. In the second case, the pod had no
// resources in the previous report, because its kubelet had released it. The kubelet was then
// killed before it had recorded the pod's end, and admitted the pod again after its restart.
func (f *facts) hasStrangers(r *Report) bool {
	for uid := range r.pods {
		if !r.pods[uid].holds {
			continue
		}
		if f.pods.byUID[uid] == nil && !f.report.Has(uid) || f.report.Has(uid) && !f.report.pods[uid].holds {
			return true
		}
	}
	return false
}

// hasNewcomers reports whether the report is the first to list a pod that has no turn, or that the
// API has not shown.
func (f *facts) hasNewcomers(r *Report) bool {
	for uid := range r.pods {
		if p := f.pods.byUID[uid]; !f.report.Has(uid) && r.pods[uid].holds && (p == nil || p.turn == 0) {
			return true
		}
	}
	return false
}

func (f *facts) settleListed(r *Report) []PromiseOutcome {
	for _, p := range f.pods.byUID {
		if !r.Model.Decides() && p.showsResize(r) {
			f.pods.contend("")
			break
		}
	}
	var outcomes []PromiseOutcome
	for _, p := range f.pods.byUID {
		if !r.Has(p.uid) {
			continue
		}
		f.pods.become(p, reported)
		o, settled := p.settlePromise(r)
		if !f.begun {
			p.unconfirmed = nil
		}
		switch {
		case !settled || !f.begun:
		case o.Exact && !o.Kept && !o.Contended && !p.shown:
			p.suspect = &o // See returns it once the API shows the pod's Binding
		default:
			outcomes = append(outcomes, o)
		}
	}
	return outcomes
}

// showsResize reports whether the kubelet gave a container more or fewer CPUs than promised. If so,
// the pod was resized before its kubelet admitted it, and the API has not shown this yet.
func (p *pod) showsResize(r *Report) bool {
	if p.promise == nil || !r.Has(p.uid) {
		return false
	}
	return slices.ContainsFunc(r.pods[p.uid].alloc.Containers, func(c placement.ContainerAllocation) bool {
		given := decisionOf(&p.promise.Decision, c.Name).CPUs
		return !given.IsEmpty() && !c.CPUs.IsEmpty() && c.CPUs.Len() != given.Len()
	})
}

// settleRejected settles the promises of the pods that the kubelet has refused, and removes the
// pods.
func (f *facts) settleRejected(r *Report) []PromiseOutcome {
	var outcomes []PromiseOutcome
	for _, uid := range r.rejected {
		p := f.pods.byUID[uid]
		if p == nil {
			continue
		}
		if p.promise != nil {
			o := p.outcomeOf(p.promise)
			o.Refused = true
			outcomes = append(outcomes, *o)
		}
		f.pods.leave(p)
	}
	return outcomes
}

// concludeUnlisted handles the pods that the report does not list. A pod that an earlier report
// listed has left, or the kubelet has lost it temporarily: the pod is removed if the API no longer
// has it, otherwise it becomes afloat. A posted pod that the API no longer has is also removed if
// the report lists a pod that was bound later, because no report will list it then. If Berth
// decides, or if other schedulers bind the pods (Witness), pods that have ended can be removed too.
func (f *facts) concludeUnlisted() {
	var newest int64
	for _, p := range f.pods.byUID {
		if p.stage == reported && f.report.Has(p.uid) {
			newest = max(newest, p.turn)
		}
	}
	for _, p := range f.pods.byUID {
		switch {
		case f.report.Has(p.uid):
		case p.phase == Ended && (f.decides() || f.witnessing && p.stage == reported):
			f.pods.leave(p)
		case p.gone && (p.stage == reported || p.stage == posted && p.turn < newest && !f.decides()):
			f.pods.leave(p)
		case p.stage == reported:
			f.pods.become(p, afloat)
		case p.stage == posted && p.turn < newest:
			p.passed = f.witnessing
		}
	}
}

// settlePromise returns the outcome of a listed pod's promise, if this report settles it. A report
// may list only a part of a pod's promised resources, or none, because the kubelet has released the
// pod, or is releasing it manager by manager. In this case the promise to an ending pod is dropped,
// and the promise to any other pod waits for a later report. If the later report shows no more, the
// promise counts as broken, unless the pod can end by itself: while its kubelet cannot reach the
// API, the API does not show this end.
func (p *pod) settlePromise(r *Report) (o PromiseOutcome, settled bool) {
	shown, promise := r.pods[p.uid].alloc, p.promise
	if promise != nil && promise.Refused {
		return o, false // the report may show a part of an admission that fails; Answered settles the promise
	}
	if promise != nil && len(promise.Either) > 0 {
		p.promise = nil
		return p.settleEither(promise, shown), true
	}
	again := promise == nil
	if again {
		promise = p.unconfirmed
	}
	p.promise, p.unconfirmed = nil, nil
	if promise == nil {
		return o, false
	}
	o = *p.outcomeOf(promise)
	o.Found = shown
	if r.Model.Decides() {
		o.Kept = Obeyed(&promise.Decision, &shown)
		return o, true
	}
	o.Kept = Kept(&promise.Decision, &shown)
	if o.Kept || !part(&promise.Decision, &shown) {
		return o, true
	}
	judged := again && !p.ending() && !p.mortal
	if !judged && !p.ending() {
		p.unconfirmed = promise
	}
	return o, judged
}

// settleEither returns the outcome of a listed pod whose Promise has Either. If other pods left
// during the admission, each container may match a different one of the decisions, so the promise
// of a pod with several containers counts as contended.
func (p *pod) settleEither(promise *Promise, shown placement.PodAllocation) PromiseOutcome {
	o := *p.outcomeOf(promise)
	o.Found = shown
	o.Contended = o.Contended || len(p.req.Containers) > 1
	for i := range promise.Either {
		o.Kept = o.Kept || Kept(&promise.Either[i], &shown)
		o.Contended = o.Contended || part(&promise.Either[i], &shown)
	}
	return o
}

// Obeyed reports whether a report shows each listed container on its promised CPUs, and with its
// promised devices if the report lists devices. It does not compare memory. Containers that do not
// run are not listed.
func Obeyed(d *placement.Decision, shown *placement.PodAllocation) bool {
	return !slices.ContainsFunc(shown.Containers, func(c placement.ContainerAllocation) bool {
		promised := decisionOf(d, c.Name)
		return promised.CPUs != c.CPUs || slices.ContainsFunc(c.Devices, func(a placement.DeviceAllocation) bool {
			at := slices.IndexFunc(promised.Devices, func(b placement.DeviceAllocation) bool { return b.Resource == a.Resource })
			return at >= 0 && !slices.Equal(promised.Devices[at].IDs, a.IDs)
		})
	})
}

// Kept reports whether the node assigned the promised resources. Containers without resources need
// not be listed. The memory of init containers is not compared, because the kubelet frees it early.
func Kept(d *placement.Decision, found *placement.PodAllocation) bool {
	if !d.Whole.Same(found.Whole) {
		return false
	}
	for i := range d.Containers {
		c := &d.Containers[i]
		if !keptContainer(c, containerOf(found, c.Name)) {
			return false
		}
	}
	return true
}

// part reports whether all found resources were promised, and each kind was found completely or not
// at all.
func part(d *placement.Decision, found *placement.PodAllocation) bool {
	if w := found.Whole; w != nil && !w.Same(d.Whole) {
		return false
	}
	for i := range found.Containers {
		f := &found.Containers[i]
		c := decisionOf(d, f.Name)
		if !(f.CPUs.IsEmpty() || f.CPUs == c.CPUs) ||
			!(len(f.Memory) == 0 || slices.Equal(f.Memory, c.Memory)) ||
			!(len(f.Devices) == 0 || slices.EqualFunc(f.Devices, c.Devices, sameDevices)) {
			return false
		}
	}
	return true
}

func decisionOf(d *placement.Decision, container string) placement.ContainerDecision {
	for i := range d.Containers {
		if d.Containers[i].Name == container {
			return d.Containers[i]
		}
	}
	return placement.ContainerDecision{}
}

func keptContainer(c *placement.ContainerDecision, f placement.ContainerAllocation) bool {
	if c.CPUs != f.CPUs || !slices.EqualFunc(c.Devices, f.Devices, sameDevices) {
		return false
	}
	return c.Kind == placement.Init || slices.Equal(c.Memory, f.Memory)
}

func containerOf(p *placement.PodAllocation, name string) placement.ContainerAllocation {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return p.Containers[i]
		}
	}
	return placement.ContainerAllocation{}
}
