package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
)

// agent has a mirror, which makes the reports, and the mirror's connections to the node and to the
// API server.
type agent struct {
	opts     Options
	api      API
	enforcer *enforcer
	mirror   *mirror
	socket   *PodResources // nil if the agent does not use the PodResources API
	pods     cache.SharedIndexInformer
	nodes    cache.SharedIndexInformer
	changed  chan struct{} // gets a value when an object in the API has changed
	// withdrawn is closed when the agent is about to exit and the report in the API offers none of
	// its devices.
	withdrawn chan struct{}
}

// mirror reads the kubelet's records of its allocations, judges them, and publishes a report. Only
// one goroutine uses it.
type mirror struct {
	now      clock
	books    *checkpoints
	kubelet  Kubelet // nil if the agent does not use the PodResources API
	node     func() *corev1.Node
	pods     *podBook
	around   *surroundings
	presence *presence
	devices  *deviceBook
	missing  missingAllocations
	// running returns the running containers. It must be set if Berth decides. The field renew
	// passes the platform to the enforcer. It may be nil, as in tests without an enforcer.
	running  func() *obeyed
	renew    func(*platform)
	history  history
	patience patience
	out      *publisher
	say      *complaints
	metrics  *Metrics
}

func (m *mirror) notice() { m.out.notice() }

// restarted clears the data that are valid only for one run of the kubelet.
func (m *mirror) restarted() {
	m.around.forget()
	m.devices.described = nil
	m.missing.file = nil
	m.notice()
	m.presence.started()
}

// lookAround checks the machine and the configuration for changes while the kubelet runs, and
// reports whether there are any.
func (m *mirror) lookAround(ctx context.Context) bool {
	news := m.around.look(ctx)
	if news {
		m.notice()
	}
	return news
}

// step reads the state of the node once and publishes changes.
func (m *mirror) step(ctx context.Context) next {
	n, err := m.prepare(ctx)
	m.say.about(topicPlatform, err)
	if err != nil {
		m.metrics.readErrors.Inc()
		return n
	}
	m.presence.beginReading()
	quiet, err := m.books.readAgain()
	if err != nil {
		return m.unreadable(ctx, err)
	}
	if !quiet {
		m.notice()
		return again(settleTime)
	}
	if err := m.books.parse(m.around.platform.tellsAdmitted); err != nil {
		if starts := m.books.starts(m.around.platform); starts != nil {
			err = starts
		}
		return m.unreadable(ctx, err)
	}
	return m.report(ctx)
}

// prepare reads the platform (the machine and the kubelet's configuration), and the earlier report
// in the API, unless they are known.
func (m *mirror) prepare(ctx context.Context) (next, error) {
	if err := m.out.assure(ctx, m.goOnFrom); err != nil {
		return again(m.out.backoff.Step()), err
	}
	return m.around.find(ctx, m.node())
}

// goOnFrom takes over the order of pods and the known devices from the report in the API.
func (m *mirror) goOnFrom(earlier *wire.Report) {
	for i, p := range earlier.Snapshot.Pods {
		m.history.last[p.UID] = i
	}
	for _, pool := range earlier.Snapshot.Devices {
		m.devices.learn(pool.Resource, pool.Devices...)
	}
}

// unreadable publishes a report with the error that prevents the agent from reading the
// checkpoints.
func (m *mirror) unreadable(ctx context.Context, err error) next {
	return m.out.publish(ctx, &verdict{
		platform: m.around.platform, drift: m.around.drift(), reason: v1alpha1.ReasonUnreadable, problem: err,
	})
}

// report judges a settled reading and publishes the verdict, unless the verdict will probably
// change soon.
func (m *mirror) report(ctx context.Context) next {
	s := m.sight(ctx)
	v := judge(s)
	if v.outcome != nil {
		m.metrics.arriving.Set(float64(len(v.outcome.arriving)))
	}
	calm := m.patience.torn.IsZero()
	switch hold, n := m.patience.with(&v, m.now()); hold {
	case forArrival:
		m.notice()
		m.out.vouch.confirmKnown(m.now())
		return n
	case forBooks:
		m.notice()
		if calm {
			m.metrics.readErrors.Inc()
		}
		return n
	}
	if v.outcome == nil {
		return m.out.publish(ctx, &v)
	}
	m.tidy(s, v.outcome)
	if n := m.out.publish(ctx, &v); n != settled || len(v.outcome.ending)+len(s.stale) == 0 {
		return n
	}
	return again(endPoll)
}
