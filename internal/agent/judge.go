package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
)

// verdict is the result of judge: the content of a report, and how reliable it is.
type verdict struct {
	platform *platform
	drift    drift
	// outcome has the content of the report, or is nil if a report cannot represent the
	// checkpoints.
	outcome *outcome
	// reason is the reason of the condition Ready; problem is nil if the scheduler can rely on the
	// report.
	reason  string
	problem error
	// astray lists containers that do not run as decided or do not start, with the reasons.
	astray []string
	// suspected is an error if the image of some pod has the name of a rival, a program that also
	// sets the CPUs of containers. Otherwise it is nil.
	suspected error
	// underWay means that the kubelet may be changing its checkpoints, so that a contradiction may
	// end by itself.
	underWay bool
}

// judge returns the verdict about a sighting. It is a pure function.
func judge(s *sighting) verdict {
	v := verdict{platform: s.platform, drift: s.drift, underWay: s.underWay(), suspected: s.suspected()}
	if s.obeyed != nil {
		v.astray = s.obeyed.astray
	}
	if err := s.books.state.Check(); err != nil {
		v.reason, v.problem = v1alpha1.ReasonContradiction, s.orStarts(err)
		return v
	}
	out, err := makeReport(s)
	if err != nil {
		v.reason, v.problem = v1alpha1.ReasonUnsupported, err
		return v
	}
	out.snapshot.Devices = s.pools
	v.outcome = &out
	v.reason, v.problem = s.rely(&out)
	return v
}

// rely returns the reason of the condition Ready and the problem, which is nil if the report is
// reliable. Problems that prevent the kubelet's start come first, because they explain missing
// checkpoints. While the kubelet does not run or is starting, a contradiction counts even during an
// admission, because a kubelet that was killed never finishes the admission.
func (s *sighting) rely(out *outcome) (reason string, problem error) {
	switch {
	case s.platform.problem != nil:
		return v1alpha1.ReasonUnsupported, also(s.platform.problem, s.absent)
	case s.memory != nil:
		return v1alpha1.ReasonContradiction, s.memory
	case s.absent != nil:
		return v1alpha1.ReasonContradiction, s.absent
	case s.foreign() != nil:
		return v1alpha1.ReasonContradiction, s.foreign()
	}
	if err := s.decidedByTwo(); err != nil {
		return v1alpha1.ReasonContradiction, err
	}
	if s.obeyed != nil && s.obeyed.problem != nil {
		return v1alpha1.ReasonNotEnforced, s.obeyed.problem
	}
	if err := s.gone(); err != nil {
		return v1alpha1.ReasonMachineChanged, err
	}
	if len(s.undescribed) > 0 {
		return v1alpha1.ReasonDevicesUnknown, &unknownDevices{s.undescribed}
	}
	_, torn := s.platform.model.StateOf(&out.snapshot)
	switch torn = s.orStarts(torn); {
	case torn != nil && (s.booting || len(out.arriving) == 0):
		return v1alpha1.ReasonContradiction, torn
	case len(out.arriving) > 0:
		return v1alpha1.ReasonAdmissionUnfinished, &unfinished{out.arriving}
	}
	return v1alpha1.ReasonConsistent, nil
}

func (s *sighting) decidedByTwo() error {
	if s.obeyed != nil {
		return s.contested()
	}
	return s.abandoned()
}

// also returns an error with both problems, or first if second is nil.
func also(first, second error) error {
	if second == nil {
		return first
	}
	return fmt.Errorf("%w; %w", first, second)
}

// The method gone returns an error if pods could still get CPUs or memory that the machine no
// longer has. It returns nil if neither Berth nor the kubelet pins anything on the node.
func (s *sighting) gone() error {
	c := &s.platform.spec.Config
	d := s.drift
	if !s.offline.IsEmpty() {
		d.cpus = true
		d.lost = append(d.lost, fmt.Sprintf("%s has CPUs %v, which are offline", kubeletstate.CPUFile, s.offline))
	}
	pins := s.obeyed != nil || c.CPUManagerPolicy == "static" || c.MemoryManagerPolicy == "Static"
	if len(d.lost) == 0 || !pins {
		return nil
	}
	return &outdated{d.lost, d.remedy(c)}
}

// foreign returns an error if no kubelet with this configuration can have written the checkpoints.
func (s *sighting) foreign() error {
	if s.starts == nil || !s.starts.Restoring {
		return nil
	}
	return s.starts
}

// orStarts returns the reason why a kubelet does not start with the checkpoints, or otherwise the
// contradiction. While a kubelet runs, the contradiction comes first. It may end by itself, because
// the kubelet writes the shared CPUs and a container's CPUs one after the other.
func (s *sighting) orStarts(contradiction error) error {
	if s.starts == nil || contradiction != nil && !s.booting {
		return contradiction
	}
	return s.starts
}

// underWay reports whether the kubelet may be admitting a pod, or releasing a pod's resources. Both
// need several writes, which take seconds on a slow disk.
func (s *sighting) underWay() bool {
	if s.away {
		return false
	}
	for uid, f := range s.pods {
		if f.ended.IsZero() && !s.admitted(uid) || !f.ended.IsZero() && s.holders[uid] {
			return true
		}
	}
	return false
}

// unknownDevices is the error for registered devices whose topology is not known.
type unknownDevices struct{ ids []string }

func (e *unknownDevices) Error() string {
	return fmt.Sprintf("the NUMA nodes of %s (the first device: %s) are not known: want the kubelet's PodResources socket (--pod-resources), which reports them",
		wire.Counted(len(e.ids), "device"), e.ids[0])
}

// unfinished is the error for pods whose admission the kubelet has not finished.
type unfinished struct{ uids []string }

func (e *unfinished) Error() string {
	return fmt.Sprintf("the kubelet has been admitting %s for more than %v (UID: %s)", wire.Counted(len(e.uids), "pod"), arrivalLimit, strings.Join(e.uids, ", "))
}

const (
	// settleTime is the time between the two readings that must be equal.
	settleTime = 5 * time.Millisecond
	// tornLimit is the time for which the agent takes a contradiction for a change in progress if
	// no pod explains such a change.
	tornLimit = time.Second
	// slowLimit is used instead of tornLimit if a pod explains the change. On a slow disk, one
	// write of a checkpoint takes hundreds of milliseconds, and an admission needs several writes.
	slowLimit = 10 * time.Second
	// arrivalPoll is the interval at which the agent checks whether an admission has ended.
	// arrivalLimit is the maximum time to wait for its end. A kubelet needs seconds for an
	// admission on a machine with 8 NUMA nodes.
	arrivalPoll  = 25 * time.Millisecond
	arrivalLimit = 60 * time.Second
	// endPoll is the interval at which the agent checks whether an ended pod is still active.
	endPoll = 200 * time.Millisecond
)

// patience decides how long the agent waits before it publishes problems that usually end by
// themselves.
type patience struct {
	torn    time.Time // when the checkpoints began to contradict each other, or zero
	arrival time.Time // when the oldest pod in admission was first seen, or zero
}

// hold is the reason why a verdict is not published yet.
type hold int

const (
	noHold hold = iota
	// forArrival means that the kubelet is admitting a pod. The last report is still correct.
	forArrival
	// forBooks means that the checkpoints contradict each other.
	forBooks
)

// The method with returns the reason why v is not published yet, or noHold, and the time until the
// next step.
func (p *patience) with(v *verdict, now time.Time) (hold, next) {
	if p.awaits(v.outcome, now) && !v.lasts() {
		return forArrival, again(arrivalPoll)
	}
	if v.reason != v1alpha1.ReasonContradiction {
		p.torn = time.Time{}
		return noHold, settled
	}
	if p.torn.IsZero() {
		p.torn = now
	}
	switch passed := now.Sub(p.torn); {
	case passed < tornLimit:
		return forBooks, again(settleTime)
	case passed < slowLimit && v.underWay:
		return forBooks, again(arrivalPoll)
	}
	return noHold, settled
}

// lasts reports whether the problem will remain after the present admissions.
func (v *verdict) lasts() bool {
	switch v.reason {
	case v1alpha1.ReasonUnsupported, v1alpha1.ReasonNotEnforced, v1alpha1.ReasonMachineChanged:
		return true
	}
	return false
}

// awaits reports whether the kubelet has been admitting a pod for less than arrivalLimit. It
// returns false if there is no outcome.
func (p *patience) awaits(o *outcome, now time.Time) bool {
	if o == nil {
		return false
	}
	if len(o.arriving) == 0 {
		p.arrival = time.Time{}
		return false
	}
	if p.arrival.IsZero() {
		p.arrival = now
	}
	return now.Sub(p.arrival) < arrivalLimit
}

// suspected returns an error if Berth decides and the image of a pod is named like a rival, but the
// pod does not have the rival's identity (see Rival).
func (s *sighting) suspected() error {
	if s.obeyed == nil {
		return nil
	}
	for _, f := range sortedFacts(s.pods) {
		if f.looksLike != "" && f.owner == "" && f.ended.IsZero() {
			return fmt.Errorf("the image of pod %s is named like %s, which sets the CPUs of containers, but no entry of --rivals "+
				"has the pod's namespace, DaemonSet and ServiceAccount: if the pod sets the CPUs of containers, remove it from the node", f.key(), f.looksLike)
		}
	}
	return nil
}
