package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
)

// unknownDevices says that nobody has described registered devices.
type unknownDevices struct{ ids []string }

func (e *unknownDevices) Error() string {
	return fmt.Sprintf("%d registered devices are not described, %s among them: want the kubelet's PodResources socket", len(e.ids), e.ids[0])
}

// unfinished says that the kubelet is still admitting pods.
type unfinished struct{ uids []string }

func (e *unfinished) Error() string {
	return fmt.Sprintf("the kubelet has been admitting pods for more than %v: %s", arrivalLimit, strings.Join(e.uids, ", "))
}

// maxMessage is the limit of metav1.Condition, less an ellipsis.
const maxMessage = 1000

// ready is the Ready condition, and beside it what the kubelet does not know.
func (m *mirror) ready(reason string, problem error) []metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason}
	if problem != nil {
		c.Status = metav1.ConditionFalse
		c.Message = problem.Error()
	}
	return append([]metav1.Condition{m.dated(c)}, m.current()...)
}

// dated completes a condition: its time of transition stays while its status does.
func (m *mirror) dated(c metav1.Condition) metav1.Condition {
	c.LastTransitionTime = metav1.NewTime(m.now().Truncate(time.Second))
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + "..."
	}
	if m.published != nil {
		if old := meta.FindStatusCondition(m.published.Status.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return c
}

// publish writes the report if it says something new.
func (m *mirror) publish(ctx context.Context, out *outcome, reason string, problem error) time.Duration {
	report := wire.Report{Snapshot: out.snapshot, Pods: out.pods, Conditions: m.ready(reason, problem)}
	if problem == nil {
		m.good = report
	} else if !m.readable(report) {
		return m.publishProblem(ctx, reason, problem)
	}
	return m.write(ctx, report)
}

// readable says whether a reader would take the report at all.
func (m *mirror) readable(report wire.Report) bool {
	nt, err := m.object(report)
	if err == nil {
		_, err = wire.ReadNodeTopology(nt)
	}
	return err == nil
}

// publishProblem says that the books cannot be used, beside what they said when they last could.
func (m *mirror) publishProblem(ctx context.Context, reason string, problem error) time.Duration {
	m.metrics.readErrors.Inc()
	report := m.good
	report.Conditions = m.ready(reason, problem)
	if wait := m.write(ctx, report); wait > 0 {
		return wait
	}
	return endPoll
}

// write applies the report unless the API has it already. Where a report with a higher number was sent, nobody knows that it does: that
// one may have been stored, or lost with the API's data while others still have it.
func (m *mirror) write(ctx context.Context, report wire.Report) time.Duration {
	now := m.now()
	nt, err := m.object(report)
	if err != nil {
		report = wire.Report{Conditions: m.ready(v1alpha1.ReasonUnsupported, err)}
		if nt, err = m.object(report); err != nil {
			m.log.Error("this machine cannot be reported", "error", err)
			return m.backoff.Step()
		}
	}
	if m.published != nil && m.published.Status.Sequence >= m.numbered && sameReport(m.published, nt) && m.owned(m.published) {
		m.dirty = time.Time{}
		m.confirm()
		return m.writeAmounts(ctx)
	}
	if wait := m.minInterval - now.Sub(m.written); wait > 0 && !m.written.IsZero() {
		return wait
	}
	return m.apply(ctx, nt)
}

func (m *mirror) object(report wire.Report) (*v1alpha1.NodeTopology, error) {
	report.Observed = m.now()
	report.Sequence = m.numbered + 1
	if m.published != nil {
		report.Sequence = max(m.published.Status.Sequence, m.numbered) + 1
	}
	return wire.WriteNodeTopology(&wire.Node{Name: m.node, Spec: m.platform.spec, Report: report})
}

// sameReport compares all but what differs in every report.
func sameReport(a, b *v1alpha1.NodeTopology) bool {
	x, y := a.Status, b.Status
	x.Sequence, y.Sequence = 0, 0
	x.ObservedTime, y.ObservedTime = metav1.MicroTime{}, metav1.MicroTime{}
	return equality.Semantic.DeepEqual(&a.Spec, &b.Spec) && equality.Semantic.DeepEqual(&x, &y)
}

// owned says whether a report goes with the Node that is there now: one that was registered anew has another UID, and what belongs
// to the one before is collected as garbage.
func (m *mirror) owned(nt *v1alpha1.NodeTopology) bool {
	node := m.nodeObject()
	return node == nil || slices.ContainsFunc(nt.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == node.UID })
}

func (m *mirror) apply(ctx context.Context, nt *v1alpha1.NodeTopology) time.Duration {
	m.written, m.numbered = m.now(), nt.Status.Sequence
	err := m.api.Publish(ctx, nt)
	m.metrics.reports.WithLabelValues(result(err)).Inc()
	if err != nil {
		m.log.Warn("cannot publish", "sequence", nt.Status.Sequence, "error", err)
		if errors.Is(err, ErrStale) {
			m.fetched = false
		}
		return m.backoff.Step()
	}
	m.backoff = newBackoff()
	m.published, m.assured = nt, m.now()
	m.setSequence(nt.Status.Sequence)
	m.confirm()
	m.measure(nt)
	m.dirty = time.Time{}
	return m.writeAmounts(ctx)
}

// measure notes the published report in metrics and log.
func (m *mirror) measure(nt *v1alpha1.NodeTopology) {
	latency := time.Duration(0)
	if !m.dirty.IsZero() {
		latency = m.now().Sub(m.dirty)
		m.metrics.latency.Observe(seconds(latency))
	}
	ready := meta.FindStatusCondition(nt.Status.Conditions, v1alpha1.ConditionReady)
	m.metrics.ready.Set(0)
	if ready.Status == metav1.ConditionTrue {
		m.metrics.ready.Set(1)
		m.metrics.occupancy.last.Store(occupancyOf(&wire.Node{Name: m.node, Spec: m.platform.spec, Report: m.good}))
	}
	m.metrics.pods.Set(float64(len(nt.Status.Pods)))
	if data, err := json.Marshal(nt); err == nil {
		m.metrics.bytes.Set(float64(len(data)))
	}
	m.log.Info("published", "sequence", nt.Status.Sequence, "pods", len(nt.Status.Pods), "shared", nt.Status.SharedCPUs,
		"ready", ready.Status, "reason", ready.Reason, "message", ready.Message, "latency", latency)
}

// writeAmounts publishes the NodeResourceTopology where it is wanted and changed.
func (m *mirror) writeAmounts(ctx context.Context) time.Duration {
	if !m.amounts {
		return 0
	}
	node := wire.Node{Name: m.node, Spec: m.platform.spec, Report: m.good}
	t := wire.WriteNodeResourceTopology(&node, m.running())
	if m.lastNRT != nil && equality.Semantic.DeepEqual(m.lastNRT.Zones, t.Zones) && equality.Semantic.DeepEqual(m.lastNRT.Attributes, t.Attributes) {
		return 0
	}
	if err := m.api.PublishAmounts(ctx, t); err != nil {
		m.log.Warn("cannot publish amounts", "error", err)
		return m.backoff.Step()
	}
	m.lastNRT = t
	return 0
}

// running names the pods that have not ended.
func (m *mirror) running() []wire.PodName {
	var out []wire.PodName
	for _, f := range m.pods.all() {
		if f.ended.IsZero() {
			out = append(out, wire.PodName{Namespace: f.namespace, Name: f.name})
		}
	}
	return out
}
