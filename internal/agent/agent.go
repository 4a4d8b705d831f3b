package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

const (
	// settleTime lies between two readings that must be equal.
	settleTime = 5 * time.Millisecond
	// tornLimit is how long a contradiction may be a change under way.
	tornLimit = time.Second
	// arrivalPoll and arrivalLimit: how often, and for how long, to look for the end of an admission. The kubelet takes
	// seconds for machines with 8 NUMA nodes.
	arrivalPoll  = 25 * time.Millisecond
	arrivalLimit = 60 * time.Second
	// endPoll is how often to ask whether a pod that has ended is still active.
	endPoll = 200 * time.Millisecond
)

// mirror makes reports and publishes them. Its step is driven by one goroutine; only verified is shared.
type mirror struct {
	node        string
	api         API
	kubelet     Kubelet // nil: cannot be asked
	machine     MachineSource
	config      ConfigSource
	version     string // of the kubelet; "": as the Node object says
	read        func() (kubeletstate.Raw, error)
	pods        *podBook
	nodeObject  func() *corev1.Node // nil until known
	now         func() time.Time
	preferences map[string]placement.Preference
	minInterval time.Duration
	amounts     bool
	log         *slog.Logger
	metrics     *Metrics

	pulse       func() string        // what may change under a kubelet; nil: nothing
	age         func() time.Duration // how long ago the kubelet started; nil: nobody knows
	configEvery time.Duration        // how often to look whether the configuration has changed

	platform   *platform
	present    present
	lastPulse  string    // of the machine that platform or present has
	configSeen time.Time // when the configuration was last looked at
	configDue  time.Time // when to look at it because a file has changed; zero: no file has
	// configDoubted: it could not be read the last time, and nobody has been told yet.
	configDoubted bool
	devices       *deviceBook
	raw           *kubeletstate.Raw
	described     []byte   // raw device checkpoint for which devices were last described
	beyond        []string // extended resources that the Node offered then, and the checkpoint lacked
	unwritten     unwritten
	firstSeen     map[string]time.Time
	last          map[string]int
	dirty         time.Time // first sign of a change that is not yet published
	torn          time.Time // since when the books contradict one another
	waiting       time.Time // since when a pod is on its way in
	good          wire.Report

	fetched   bool
	assured   time.Time // when the API was last asked for published, or given it
	published *v1alpha1.NodeTopology
	written   time.Time // of the last write
	numbered  int64     // the highest number that was given to a report: one whose write failed may be in the API all the same
	lastNRT   *nrt.NodeResourceTopology
	backoff   backoff
	look      backoff // between attempts to find out machine and configuration

	// What was last complained of, each "" if it was well: machine and configuration cannot be found out, the kubelet does not tell its
	// active pods, the changed machine cannot be read, the kubelet does not describe its devices, or does not tell who holds them.
	problem, untold, unseen, undescribed, withheld string

	mu       sync.Mutex
	verified time.Time // when the published report was last found to hold
	sequence int64
	absent   bool      // the kubelet is gone, or has not been seen yet
	back     time.Time // when it last started, as far as is known
}

// backoff spreads attempts that fail.
type backoff = wait.Backoff

func newBackoff() backoff {
	return backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

// newLook spreads attempts to ask what is on this very node. A kubelet that starts answers late, and is asked often.
func newLook() backoff {
	return backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 10, Cap: 500 * time.Millisecond}
}

// notice remembers the first sign of a change.
func (m *mirror) notice() {
	if m.dirty.IsZero() {
		m.dirty = m.now()
	}
}

// restarted forgets what is frozen while a kubelet runs.
func (m *mirror) restarted() {
	m.platform = nil
	m.described = nil
	m.unwritten.file = nil
	m.look = newLook()
	m.notice()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.back = m.now() // its PodResources API may have answered long before: it waits for its runtime in between
}

// kubeletIs notes whether the kubelet is there.
func (m *mirror) kubeletIs(there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !there:
		m.absent = true
	case m.absent:
		m.absent, m.back = false, m.now()
		if m.age != nil {
			m.back = m.back.Add(-m.age())
		}
	}
}

// booting says whether the kubelet is gone, or may not have read its pods yet since it is back.
func (m *mirror) booting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.absent || m.now().Sub(m.back) < evidenceByTime
}

// step looks at the node once and publishes what changed. It returns how long to wait before the next step if nothing
// happens; 0 means no hurry.
func (m *mirror) step(ctx context.Context) time.Duration {
	wait, err := m.prepare(ctx)
	m.complain(&m.problem, "cannot report yet", err)
	if err != nil {
		m.metrics.readErrors.Inc()
		return wait
	}
	raw, err := m.read()
	if err != nil {
		return m.publishProblem(ctx, v1alpha1.ReasonUnreadable, err)
	}
	if m.raw == nil || !raw.Equal(*m.raw) {
		m.raw = &raw
		m.notice()
		return settleTime
	}
	return m.report(ctx, raw)
}

// prepare makes sure that platform and earlier report are known.
func (m *mirror) prepare(ctx context.Context) (time.Duration, error) {
	m.assure(ctx)
	if !m.fetched {
		if err := m.fetch(ctx); err != nil {
			return m.backoff.Step(), err
		}
	}
	if m.platform == nil {
		node := m.nodeObject()
		if node == nil {
			return endPoll, errors.New("the Node object is not there yet")
		}
		if m.pulse != nil {
			m.lastPulse = m.pulse()
		}
		p, err := discover(ctx, m.machine, m.config, cmp.Or(m.version, node.Status.NodeInfo.KubeletVersion))
		if err != nil {
			return m.look.Step(), err
		}
		m.platform, m.present, m.configSeen, m.configDue = &p, present{view: p.spec.View, config: &p.spec.Config}, m.now(), time.Time{}
		m.look, m.backoff = newLook(), newBackoff()
	}
	return 0, nil
}

// assureEvery is how often the agent looks whether the API still has what it has published. Of 5,000 nodes that is 17 reads a
// second.
const assureEvery = 5 * time.Minute

// assure now and then looks for the report in the API: somebody may have deleted it, and it is to be written again then.
func (m *mirror) assure(ctx context.Context) {
	if !m.fetched || m.now().Sub(m.assured) < assureEvery {
		return
	}
	m.assured = m.now()
	nt, err := m.api.NodeTopology(ctx)
	if err != nil {
		return // nobody can say; the next write or look will
	}
	if nt == nil || m.published == nil || !sameWrite(nt, m.published) {
		m.log.Warn("the API does not have the report that was published; it is read again")
		m.fetched = false
	}
}

// sameWrite says whether two objects are of one write: the number alone may have been given twice, once before the API's data were
// restored and once after. The API keeps microseconds.
func sameWrite(a, b *v1alpha1.NodeTopology) bool {
	x, y := a.Status.ObservedTime.Truncate(time.Microsecond), b.Status.ObservedTime.Truncate(time.Microsecond)
	return a.Status.Sequence == b.Status.Sequence && x.Equal(y)
}

// fetch reads what the API has: sequence number, order of pods, devices. Nobody vouches for it before it has been compared.
func (m *mirror) fetch(ctx context.Context) error {
	nt, err := m.api.NodeTopology(ctx)
	if err != nil {
		return err
	}
	m.fetched, m.assured, m.published = true, m.now(), nt
	m.unconfirm()
	if nt == nil {
		m.numbered = 0 // the next object begins anew
		return nil
	}
	m.setSequence(nt.Status.Sequence)
	report, err := wire.ReadReport(nt)
	if err != nil {
		m.log.Warn("ignoring the content of the earlier report", "error", err)
		return nil
	}
	m.good = report
	for i, p := range report.Snapshot.Pods {
		m.last[p.UID] = i
	}
	for _, pool := range report.Snapshot.Devices {
		m.devices.learn(pool.Resource, pool.Devices...)
	}
	return nil
}

// report makes a report of a settled reading.
func (m *mirror) report(ctx context.Context, raw kubeletstate.Raw) time.Duration {
	state, err := raw.Parse()
	if err != nil {
		return m.publishProblem(ctx, v1alpha1.ReasonUnreadable, err)
	}
	if err := state.Check(); err != nil {
		return m.contradiction(ctx, err)
	}
	s := m.sight(ctx, state)
	m.recall(ctx, raw.Devices, s)
	out, err := makeReport(s)
	if err != nil {
		return m.publishProblem(ctx, v1alpha1.ReasonUnsupported, err)
	}
	m.metrics.arriving.Set(float64(len(out.arriving)))
	if wait, held := m.hold(&out); held {
		return wait
	}
	capacity := capacityOf(m.nodeObject())
	m.describe(ctx, raw.Devices, state.Devices, capacity)
	var missing []string
	out.snapshot.Devices, missing = m.devices.pools(state.Devices, capacity, m.preferences)
	reason, err := m.judge(&state, &out, missing)
	if reason == v1alpha1.ReasonContradiction {
		if wait, torn := m.maybeTorn(); torn {
			return wait
		}
	} else {
		m.torn = time.Time{}
	}
	m.tidy(&state, &out)
	next := m.publish(ctx, &out, reason, err)
	if next == 0 && len(out.ending) > 0 {
		return endPoll
	}
	return next
}

// sight gathers what a report is made of. The kubelet is asked for its active pods only if the answer matters.
func (m *mirror) sight(ctx context.Context, state kubeletstate.State) *sighting {
	if !m.platform.tellsAdmitted {
		state.Admitted = nil // what lies there is from another time
	}
	if state.Admitted != nil {
		m.pods.admit(state.Admitted.Has)
	}
	s := &sighting{now: m.now(), state: state, pods: m.pods.all(), firstSeen: m.firstSeen, last: m.last, listsAll: m.platform.listsAll}
	s.booting = m.booting()
	ask := false
	for uid := range holders(&state) {
		f, known := s.pods[uid]
		if !known && m.firstSeen[uid].IsZero() {
			m.firstSeen[uid] = s.now
		}
		ask = ask || !known || !f.ended.IsZero()
	}
	if ask && m.kubelet != nil {
		active, err := m.kubelet.ActivePods(ctx)
		if err == nil {
			s.active = active
		}
		m.complain(&m.untold, "the kubelet does not tell its active pods; going by time", err)
	}
	return s
}

// complain logs an error that has come for the first time, and that it is over; said remembers which. What fails is tried many
// times a second.
func (m *mirror) complain(said *string, what string, err error) {
	switch {
	case err == nil && *said != "":
		*said = ""
		m.log.Info("over: " + what)
	case err != nil && err.Error() != *said:
		*said = err.Error()
		m.log.Warn(what, "error", err)
	}
}

// holders returns the pods that the books name, by the kubelet's UID.
func holders(s *kubeletstate.State) map[string]bool {
	out := map[string]bool{}
	if s.CPU != nil {
		for _, e := range s.CPU.Entries {
			out[e.PodUID] = true
		}
	}
	if s.Memory != nil {
		for _, e := range s.Memory.Entries {
			out[e.PodUID] = true
		}
	}
	if s.Devices != nil {
		for _, e := range s.Devices.Entries {
			out[e.PodUID] = true
		}
	}
	return out
}

// hold waits for pods on their way in, for a while.
func (m *mirror) hold(out *outcome) (time.Duration, bool) {
	if len(out.arriving) == 0 {
		m.waiting = time.Time{}
		return 0, false
	}
	if m.waiting.IsZero() {
		m.waiting = m.now()
	}
	m.notice()
	if m.now().Sub(m.waiting) >= arrivalLimit {
		return 0, false
	}
	if at, _ := m.holds(); !at.IsZero() {
		m.confirm() // the last report and the pods bound since still tell the truth
	}
	return arrivalPoll, true
}

// describe asks for the topology of devices when plugins have told the kubelet something new.
func (m *mirror) describe(ctx context.Context, raw []byte, s *kubeletstate.DeviceState, capacity map[string]int64) {
	if s == nil || m.kubelet == nil {
		return
	}
	beyond := unregistered(s, capacity)
	if m.described != nil && bytes.Equal(m.described, raw) && slices.Equal(m.beyond, beyond) && !m.devices.unknown(s) {
		return
	}
	devices, err := m.kubelet.Devices(ctx)
	m.complain(&m.undescribed, "the kubelet does not describe its devices", err)
	if err != nil {
		return
	}
	for resource, list := range devices {
		m.devices.learn(resource, list...)
	}
	m.devices.compare(s, devices)
	m.described, m.beyond = raw, beyond
}

func capacityOf(node *corev1.Node) map[string]int64 {
	out := map[string]int64{}
	if node != nil {
		for name, q := range node.Status.Capacity {
			out[string(name)] = q.Value()
		}
	}
	return out
}

// judge says whether the report may be relied on: the reason of its Ready condition, and what is wrong.
func (m *mirror) judge(state *kubeletstate.State, out *outcome, missing []string) (string, error) {
	p, err := m.platform.withMemoryOf(state.Memory)
	if err != nil {
		return v1alpha1.ReasonContradiction, err
	}
	m.platform = &p
	if err := p.policiesAgree(state); err != nil {
		return v1alpha1.ReasonContradiction, err
	}
	if p.problem != nil {
		return v1alpha1.ReasonUnsupported, p.problem
	}
	if err := m.gone(state); err != nil {
		return v1alpha1.ReasonMachineChanged, err
	}
	if len(missing) > 0 {
		return v1alpha1.ReasonDevicesUnknown, &unknownDevices{missing}
	}
	if len(out.arriving) > 0 {
		return v1alpha1.ReasonAdmissionUnfinished, &unfinished{out.arriving}
	}
	if _, err := p.model.StateOf(&out.snapshot); err != nil {
		return v1alpha1.ReasonContradiction, m.withRemedy(err)
	}
	return v1alpha1.ReasonConsistent, nil
}

// withRemedy adds to a contradiction what helps where the kubelet is away. It writes what is left over and what a container gets one
// after the other, and does not start over checkpoints of which it could write but one (validateState of
// pkg/kubelet/cm/cpumanager/policy_static.go and pkg/kubelet/cm/memorymanager/policy_static.go). Of devices it starts over any.
func (m *mirror) withRemedy(err error) error {
	wrong := (*placement.StateError)(nil)
	if !m.booting() || !errors.As(err, &wrong) {
		return err
	}
	var file string
	switch field := wrong.Field; {
	case strings.HasPrefix(field, "memory"), strings.HasSuffix(field, "memory"):
		file = kubeletstate.MemoryFile
	case field == "sharedCPUs", strings.HasSuffix(field, "cpus"):
		file = kubeletstate.CPUFile
	default:
		return err
	}
	return fmt.Errorf("%w; a kubelet that was killed between two writes does not start over this: drain the node, stop the kubelet, remove %s, start the kubelet", err, file)
}

// contradiction waits for a change under way before it publishes a contradiction.
func (m *mirror) contradiction(ctx context.Context, err error) time.Duration {
	if wait, torn := m.maybeTorn(); torn {
		return wait
	}
	return m.publishProblem(ctx, v1alpha1.ReasonContradiction, err)
}

func (m *mirror) maybeTorn() (time.Duration, bool) {
	m.notice()
	if m.torn.IsZero() {
		m.torn = m.now()
		m.metrics.readErrors.Inc()
	}
	return settleTime, m.now().Sub(m.torn) < tornLimit
}

// tidy forgets pods that nobody names any more.
func (m *mirror) tidy(state *kubeletstate.State, out *outcome) {
	held := holders(state)
	m.pods.forget(func(uid string) bool { return held[uid] })
	for uid := range m.firstSeen {
		if !held[uid] {
			delete(m.firstSeen, uid)
		}
	}
	m.last = make(map[string]int, len(out.order))
	for i, uid := range out.order {
		m.last[uid] = i
	}
}

// confirm notes that the published report holds.
func (m *mirror) confirm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verified = m.now()
}

// unconfirm notes that nobody knows whether the published report holds.
func (m *mirror) unconfirm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verified = time.Time{}
}

func (m *mirror) setSequence(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sequence = n
	m.metrics.sequence.Set(float64(n))
}

// holds returns when the published report was last found to hold, and its sequence number.
func (m *mirror) holds() (time.Time, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.verified, m.sequence
}
