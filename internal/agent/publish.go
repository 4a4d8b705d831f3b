package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// publisher writes reports into the API. It numbers the reports, writes only changes, and repeats
// failed writes.
type publisher struct {
	name    string              // of the node
	node    func() *corev1.Node // nil until known
	api     API
	now     clock
	pace    pace
	amounts *amountsWriter
	log     *slog.Logger
	metrics *Metrics
	// started returns the time when the kubelet created its socket, or zero if there is no socket.
	// The function is nil if this cannot be known.
	started func() time.Time

	// spec is the last spec that was written, and the platform's model then. A platform that
	// changes gets another model. Without a model, the spec is written each time.
	spec struct {
		of      *placement.Model
		written v1alpha1.NodeTopologySpec
	}
	// lastStart is the last result of started that was not zero.
	lastStart time.Time
	assured   time.Time // when the agent last saw its report in the API; zero: it must read the API
	published *v1alpha1.NodeTopology
	// numbered is the highest sequence number of a report that the agent has tried to write. The
	// API may have a report although its write failed.
	numbered int64
	// refused is the last report that the API server refused because of its content. The zero value
	// means none.
	refused refused
	dirty   time.Time   // the time of the first sign of a change that is not yet published
	good    wire.Report // the last reliable report
	backoff backoff
	vouch   vouch
}

type refused struct {
	nt  *v1alpha1.NodeTopology
	why error
	at  time.Time
}

// refusedFor is the time after which a refused report is written again, because the
// CustomResourceDefinition may have been corrected.
const refusedFor = 5 * time.Minute

// The method tells reports whether the API server has recently refused an equal report.
func (r *refused) tells(nt *v1alpha1.NodeTopology, now time.Time) bool {
	return r.nt != nil && now.Sub(r.at) < refusedFor && sameReport(r.nt, nt)
}

// unfit reports whether an error is the API server's refusal of the object itself: a field over its
// limit, a body over the server's limit, or an object over etcd's limit (--max-request-bytes). For
// the last case, the API server has no status reason, so unfit compares the text.
func unfit(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), "etcdserver: request is too large") || strings.Contains(err.Error(), "trying to send message larger than max")
}

// pace computes when the next write is allowed, with a minimum time between two writes.
type pace struct {
	least time.Duration
	last  time.Time // zero before the first
}

// wait returns the time until the next write.
func (p *pace) wait(now time.Time) time.Duration {
	if p.last.IsZero() {
		return 0
	}
	return max(0, p.least-now.Sub(p.last))
}

// vouch has the last time at which the agent found the published report to be valid. It is safe for
// concurrent use.
type vouch struct {
	mu       sync.Mutex
	verified time.Time // zero if the report may not be valid
	sequence int64
}

// confirm records that the published report is valid.
func (v *vouch) confirm(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verified = now
}

// confirmKnown renews the confirmation of the published report. It does nothing if the report was
// never confirmed, or if the confirmation was retracted.
func (v *vouch) confirmKnown(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.verified.IsZero() {
		v.verified = now
	}
}

// retract records that the published report may no longer be valid.
func (v *vouch) retract() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verified = time.Time{}
}

func (v *vouch) number(n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sequence = n
}

// holds returns the time of the last confirmation, and the sequence number of the published report.
func (v *vouch) holds() (time.Time, int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.verified, v.sequence
}

// notice records the time of the first sign of a change that is not published yet.
func (p *publisher) notice() {
	if p.dirty.IsZero() {
		p.dirty = p.now()
	}
}

// assureEvery is the interval at which the agent checks that the API still has its report. With
// 5,000 nodes this causes 17 reads a second.
const assureEvery = 5 * time.Minute

// assure reads the report in the API if it is not known, and also every assureEvery, because a
// deleted report must be written again. It calls goOnFrom with a report that it reads.
func (p *publisher) assure(ctx context.Context, goOnFrom func(*wire.Report)) error {
	if p.assured.IsZero() {
		return p.fetch(ctx, goOnFrom)
	}
	if p.now().Sub(p.assured) < assureEvery {
		return nil
	}
	p.assured = p.now()
	nt, err := p.api.NodeTopology(ctx)
	if err != nil || nt != nil && p.published != nil && sameWrite(nt, p.published) {
		return nil // without an answer, the next write or check detects a difference
	}
	p.log.Warn("the API server does not have the published report; the agent reads the object again")
	p.assured = time.Time{}
	return p.fetch(ctx, goOnFrom)
}

// sameWrite reports whether two objects come from the same write. The sequence number is not
// enough: it repeats if etcd was restored. The API stores times in microseconds.
func sameWrite(a, b *v1alpha1.NodeTopology) bool {
	x, y := a.Status.ObservedTime.Truncate(time.Microsecond), b.Status.ObservedTime.Truncate(time.Microsecond)
	return a.Status.Sequence == b.Status.Sequence && x.Equal(y)
}

// fetch reads the report in the API. The report is not confirmed before the agent has compared it
// with the checkpoints.
func (p *publisher) fetch(ctx context.Context, goOnFrom func(*wire.Report)) error {
	nt, err := p.api.NodeTopology(ctx)
	if err != nil {
		return err
	}
	p.assured, p.published = p.now(), nt
	p.vouch.retract()
	if nt == nil {
		p.numbered = 0 // the numbers of the next object begin again
		return nil
	}
	p.setSequence(nt.Status.Sequence)
	report, err := wire.ReadReport(nt)
	if err != nil {
		p.log.Warn("ignoring the content of the earlier report", "error", err)
		return nil
	}
	p.good = report
	goOnFrom(&p.good)
	return nil
}

func (p *publisher) setSequence(n int64) {
	p.vouch.number(n)
	p.metrics.sequence.Set(float64(n))
}

// publish writes a verdict if it is new. If no valid report can represent the checkpoints, publish
// writes the content of the last reliable report, together with the problem.
func (p *publisher) publish(ctx context.Context, v *verdict) next {
	report := p.good
	if v.outcome != nil {
		report = wire.Report{Snapshot: v.outcome.snapshot, Pods: v.outcome.pods}
	}
	report.Conditions = p.conditions(v)
	switch {
	case v.problem == nil:
		p.good = report
	case v.outcome == nil || !p.readable(v.platform, report):
		p.metrics.readErrors.Inc()
		report.Snapshot, report.Pods = p.good.Snapshot, p.good.Pods
		if n := p.write(ctx, v, report); n != settled {
			return n
		}
		return again(endPoll)
	}
	return p.write(ctx, v, report)
}

// maxMessage is the maximum length of a condition's message, which leaves room for an ellipsis
// below the API's limit.
const maxMessage = 1000

// conditions returns the condition Ready, and those of the conditions Enforced, SoleOwner and
// KubeletCurrent that are not True.
func (p *publisher) conditions(v *verdict) []metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v.reason}
	if v.problem != nil {
		c.Status = metav1.ConditionFalse
		c.Message = v.problem.Error()
	}
	out := []metav1.Condition{p.dated(c)}
	if len(v.astray) > 0 {
		out = append(out, p.dated(metav1.Condition{Type: v1alpha1.ConditionEnforced, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonAstray, Message: strings.Join(v.astray, "; ")}))
	}
	if v.suspected != nil {
		out = append(out, p.dated(metav1.Condition{Type: v1alpha1.ConditionSoleOwner, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonRivalSuspected, Message: v.suspected.Error()}))
	}
	p.metrics.astray.Set(float64(len(v.astray)))
	if current, changed := v.drift.condition(&v.platform.spec.Config); changed {
		out = append(out, p.dated(current))
	}
	return out
}

// dated adds the transition time to a condition. The time stays the same while the status stays the
// same.
func (p *publisher) dated(c metav1.Condition) metav1.Condition {
	c.LastTransitionTime = metav1.NewTime(p.now().Truncate(time.Second))
	c.Message = clip.Text(c.Message, maxMessage)
	if p.published != nil {
		if old := meta.FindStatusCondition(p.published.Status.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return c
}

// readable reports whether other programs could read the report.
func (p *publisher) readable(on *platform, report wire.Report) bool {
	nt, err := p.object(on, report)
	if err == nil {
		_, err = wire.ReadNodeTopology(nt)
	}
	return err == nil
}

// write applies the report unless the API has it already. It also writes if the agent has tried to
// write a report with a higher number than the published one. The API may have that report, or may
// have lost it in a restore while readers still have it.
func (p *publisher) write(ctx context.Context, v *verdict, report wire.Report) next {
	now := p.now()
	nt, err := p.object(v.platform, report)
	small := false
	switch {
	case err != nil:
		nt, err = p.small(v, v1alpha1.ReasonUnsupported, err)
	case p.refused.tells(nt, now):
		nt, err = p.small(v, v1alpha1.ReasonTooLarge, p.refused.why)
		small = true
	}
	if err != nil {
		p.log.Error("this machine cannot be reported", "error", err)
		return again(p.backoff.Step())
	}
	last := p.published
	if last != nil && last.Status.Sequence >= p.numbered && sameReport(last, nt) && p.owned(last) {
		p.dirty = time.Time{}
		p.vouch.confirm(now)
		return p.writeAmounts(ctx, v.platform)
	}
	if wait := p.pace.wait(now); wait > 0 {
		return again(wait)
	}
	return p.apply(ctx, v.platform, nt, !small)
}

// small returns a report that has only the reason why the full report cannot be published.
func (p *publisher) small(v *verdict, reason string, problem error) (*v1alpha1.NodeTopology, error) {
	instead := *v
	instead.reason, instead.problem, instead.astray, instead.suspected = reason, problem, nil, nil
	return p.object(v.platform, wire.Report{Conditions: p.conditions(&instead)})
}

func (p *publisher) object(on *platform, report wire.Report) (*v1alpha1.NodeTopology, error) {
	report.Observed, report.KubeletStarted = p.now(), p.kubeletStarted()
	report.Sequence = p.numbered + 1
	if p.published != nil {
		report.Sequence = max(p.published.Status.Sequence, p.numbered) + 1
	}
	if on.model == nil || p.spec.of != on.model {
		written, err := wire.WriteNodeSpec(p.name, &on.spec)
		if err != nil {
			return nil, err
		}
		p.spec.of, p.spec.written = on.model, written
	}
	return wire.WriteReport(p.name, p.spec.written, &report)
}

// kubeletStarted returns the start time of the running kubelet, or of the last one if none runs.
func (p *publisher) kubeletStarted() time.Time {
	if p.started == nil {
		return p.lastStart
	}
	if at := p.started(); !at.IsZero() {
		p.lastStart = at
	}
	return p.lastStart
}

// sameReport reports whether two reports are equal, except for the sequence number and the time of
// observation.
func sameReport(a, b *v1alpha1.NodeTopology) bool {
	x, y := a.Status, b.Status
	x.Sequence, y.Sequence = 0, 0
	x.ObservedTime, y.ObservedTime = metav1.MicroTime{}, metav1.MicroTime{}
	return a.Annotations[v1alpha1.KubeletStartedAnnotation] == b.Annotations[v1alpha1.KubeletStartedAnnotation] &&
		equality.Semantic.DeepEqual(&a.Spec, &b.Spec) && equality.Semantic.DeepEqual(&x, &y)
}

// owned reports whether a report belongs to the present Node. A Node that was registered again has
// another UID, and the garbage collector deletes the objects of the former Node.
func (p *publisher) owned(nt *v1alpha1.NodeTopology) bool {
	node := p.node()
	if node == nil {
		return true
	}
	return slices.ContainsFunc(nt.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == node.UID })
}

// apply writes a report. If the API server refuses the object itself and a small report can replace
// it (replaceable), the next step writes the small report.
func (p *publisher) apply(ctx context.Context, on *platform, nt *v1alpha1.NodeTopology, replaceable bool) next {
	p.pace.last, p.numbered = p.now(), nt.Status.Sequence
	err := p.api.Publish(ctx, nt)
	p.metrics.reports.WithLabelValues(result(err)).Inc()
	if err != nil {
		p.log.Warn("cannot publish", "sequence", nt.Status.Sequence, "error", err)
		if errors.Is(err, ErrStale) {
			p.assured = time.Time{}
		} else if replaceable && unfit(err) {
			p.refused = refused{nt, fmt.Errorf("the API server refuses the report of this node's allocations: %w", err), p.now()}
			return again(p.pace.least)
		}
		return again(p.backoff.Step())
	}
	p.backoff = newBackoff()
	p.published, p.assured = nt, p.now()
	p.setSequence(nt.Status.Sequence)
	p.vouch.confirm(p.now())
	p.measure(on, nt)
	p.dirty = time.Time{}
	return p.writeAmounts(ctx, on)
}

// measure records the published report in the metrics and the log.
func (p *publisher) measure(on *platform, nt *v1alpha1.NodeTopology) {
	latency := time.Duration(0)
	if !p.dirty.IsZero() {
		latency = p.now().Sub(p.dirty)
		p.metrics.latency.Observe(latency.Seconds())
	}
	ready := meta.FindStatusCondition(nt.Status.Conditions, v1alpha1.ConditionReady)
	p.metrics.ready.Set(0)
	if ready.Status == metav1.ConditionTrue {
		p.metrics.ready.Set(1)
		p.metrics.occupancy.last.Store(&wire.Node{Name: p.name, Spec: on.spec, Report: p.good})
	}
	p.metrics.pods.Set(float64(len(nt.Status.Pods)))
	p.metrics.published.Store(nt)
	p.log.Info("published", "sequence", nt.Status.Sequence, "pods", len(nt.Status.Pods), "shared", nt.Status.SharedCPUs,
		"ready", ready.Status, "reason", ready.Reason, "message", ready.Message, "latency", latency)
}

// amountsWriter publishes objects for other programs.
type amountsWriter struct {
	// zones, cpus and devices select the objects: a NodeResourceTopology, a Numatopology, a Device.
	zones, cpus, devices bool

	running     func() []wire.PodName // the pods that have not ended
	lastZones   *nrt.NodeResourceTopology
	lastCPUs    *nodeinfo.Numatopology
	lastDevices *koordinator.Device
}

// writeAmounts publishes the objects for other programs, if they are configured and have changed.
func (p *publisher) writeAmounts(ctx context.Context, on *platform) next {
	if p.amounts == nil {
		return settled
	}
	node := wire.Node{Name: p.name, Spec: on.spec, Report: p.good}
	if err := errors.Join(p.writeZones(ctx, &node), p.writeCPUs(ctx, &node), p.writeDevices(ctx, &node)); err != nil {
		p.log.Warn("cannot publish amounts", "error", err)
		return again(p.backoff.Step())
	}
	return settled
}

// writeZones writes the NodeResourceTopology. If the report is not reliable, it leaves the object
// unchanged. The object's fingerprint then belongs to earlier pods, so readers see that the object
// is old.
func (p *publisher) writeZones(ctx context.Context, node *wire.Node) error {
	if !p.amounts.zones || !meta.IsStatusConditionTrue(p.published.Status.Conditions, v1alpha1.ConditionReady) {
		return nil
	}
	same := func(a, b *nrt.NodeResourceTopology) bool {
		return equality.Semantic.DeepEqual(a.Zones, b.Zones) && equality.Semantic.DeepEqual(a.Attributes, b.Attributes)
	}
	return renew(ctx, p.api, nrt.NodeResourceTopologies, &p.amounts.lastZones, wire.WriteNodeResourceTopology(node, p.amounts.running()), same)
}

func (p *publisher) writeDevices(ctx context.Context, node *wire.Node) error {
	if !p.amounts.devices {
		return nil
	}
	same := func(a, b *koordinator.Device) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) }
	return renew(ctx, p.api, koordinator.Devices, &p.amounts.lastDevices, wire.WriteDevice(node.Name, node.Spec.Machine), same)
}

func (p *publisher) writeCPUs(ctx context.Context, node *wire.Node) error {
	if !p.amounts.cpus {
		return nil
	}
	node.Report.Observed = p.now()
	same := func(a, b *nodeinfo.Numatopology) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) }
	return renew(ctx, p.api, nodeinfo.Numatopologies, &p.amounts.lastCPUs, wire.WriteNumatopology(node), same)
}

// renew publishes an object unless it equals the last published one.
func renew[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, api API, resource schema.GroupVersionResource, last *P, now P, same func(a, b P) bool) error {
	if *last != nil && same(*last, now) {
		return nil
	}
	if err := api.PublishAmounts(ctx, resource, now); err != nil {
		return err
	}
	*last = now
	return nil
}
