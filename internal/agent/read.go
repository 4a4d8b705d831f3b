package agent

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// sight collects all inputs of a report. It asks the kubelet only if the answer can change the
// report.
func (m *mirror) sight(ctx context.Context) *sighting {
	state := &m.books.state
	m.pods.admit(func(uid string) bool { admitted, told := m.books.admitted(uid); return admitted && told })
	s := &sighting{
		now: m.now(), books: m.books, pods: m.pods.all(), history: m.history,
	}
	s.memory = m.around.recall(state.Memory)
	s.platform, s.drift = m.around.platform, m.around.drift()
	s.drift.stale = m.around.stale(m.books, &s.drift)
	s.absent, s.starts = m.books.present(&s.platform.spec.Config), m.books.starts(s.platform)
	s.offline = m.books.offline(m.around.offline())
	var pinned map[pin]bool
	if s.absent == nil && s.foreign() == nil {
		pinned = m.books.pinned()
	}
	m.presence.endReading(pinned, s.ended)
	s.booting, s.away = m.presence.booting(), m.presence.away()
	s.rival = m.claim(s)
	s.holders = m.books.holders()
	if s.platform.spec.Authority == v1alpha1.AuthorityBerth {
		if m.renew != nil {
			m.renew(s.platform)
		}
		if s.obeyed = m.running(); s.platform.spec.Koordlet {
			s.obeyed = m.entrusted(s)
		}
		for uid := range s.obeyed.pods {
			s.holders[uid] = true
		}
	}
	s.active = m.askActive(ctx, s)
	m.missing.recall(ctx, m, s)
	capacity, allocatable := offersOf(m.node())
	m.describe(ctx, capacity, allocatable)
	s.pools, s.undescribed = m.devices.pools(state.Devices, capacity)
	if machine := s.platform.spec.Machine; machine != nil {
		m.say.about(topicGPUs, m.devices.locate(s.pools, machine))
	}
	s.addOffered()
	return s
}

// askActive returns the kubelet's active pods. It asks only if a pod with resources has ended or is
// not in the API.
func (m *mirror) askActive(ctx context.Context, s *sighting) map[string]int {
	ask := false
	for uid := range s.holders {
		_, known := s.pods[uid]
		if !known && s.history.firstSeen[uid].IsZero() {
			s.history.firstSeen[uid] = s.now
		}
		ask = ask || s.ended(uid)
	}
	if !ask || m.kubelet == nil {
		return nil
	}
	active, err := m.kubelet.ActivePods(ctx)
	m.say.about(topicActive, err)
	if err != nil {
		return nil
	}
	return active
}

// describe asks the kubelet for the topology of devices if the checkpoint or the Node's capacity
// shows a change of devices, or if the topology of a device is not known. It also asks while the
// Node offers fewer devices than the checkpoint has, because only the kubelet knows the remaining
// devices.
func (m *mirror) describe(ctx context.Context, capacity, allocatable map[string]int64) {
	b, s := m.devices, m.books.state.Devices
	if s == nil || m.kubelet == nil {
		return
	}
	beyond, short := b.unregistered(s, capacity), b.fewer(s, allocatable)
	fresh := b.described == nil || !bytes.Equal(b.described, m.books.raw.Devices) || !slices.Equal(b.beyond, beyond)
	maps.DeleteFunc(b.lost, func(resource string, _ []string) bool { return !slices.Contains(short, resource) })
	if !fresh && len(short) == 0 && !b.unknown(s) {
		return
	}
	devices, err := m.kubelet.Devices(ctx)
	m.say.about(topicDescription, err)
	if err != nil {
		return
	}
	for resource, list := range devices {
		b.learn(resource, list...)
	}
	b.compare(s, devices, short)
	b.described, b.beyond = m.books.raw.Devices, beyond
}

// offersOf returns the Node's capacity and allocatable amounts, if there is a Node.
func offersOf(node *corev1.Node) (capacity, allocatable map[string]int64) {
	if node == nil {
		return nil, nil
	}
	return wholeOf(node.Status.Capacity), wholeOf(node.Status.Allocatable)
}

func wholeOf(list corev1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		out[string(name)] = q.Value()
	}
	return out
}

// tidy forgets pods that neither the API nor the checkpoints have any more, and stores the order of
// the reported pods.
func (m *mirror) tidy(s *sighting, out *outcome) {
	for _, uid := range out.over {
		m.history.over[uid] = true
		delete(s.holders, uid)
	}
	m.pods.forget(func(uid string) bool { return s.holders[uid] })
	maps.DeleteFunc(m.history.over, func(uid string, _ bool) bool {
		_, known := s.pods[uid]
		return !known
	})
	maps.DeleteFunc(m.history.firstSeen, func(uid string, _ time.Time) bool { return !s.holders[uid] })
	m.history.last = make(map[string]int, len(out.order))
	for i, uid := range out.order {
		m.history.last[uid] = i
	}
}
