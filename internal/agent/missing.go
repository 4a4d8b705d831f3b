package agent

import (
	"bytes"
	"context"
	"slices"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
)

// missingAllocations finds device allocations of running containers that are missing in the
// kubelet's checkpoint. If the kubelet admits a pod while a plugin reports its devices, the kubelet
// can write older content last (see deviceBook.unlisted).
type missingAllocations struct {
	// file is the content of the checkpoint when the agent last asked the kubelet, or nil. The
	// field lacks has the entries that were missing in it, ascending and without devices.
	file  []byte
	lacks []kubeletstate.DeviceEntry
	// found is the kubelet's answer.
	found []kubeletstate.DeviceEntry
}

// recall adds missing allocations to the reading. It asks the kubelet only if allocations are
// missing. A starting kubelet may not have read its own checkpoint yet, and its answer may then be
// incomplete.
func (a *missingAllocations) recall(ctx context.Context, m *mirror, s *sighting) {
	lacks := m.lacking(s)
	if !a.asked(m.books.raw.Devices, lacks) && len(lacks) > 0 && m.kubelet != nil {
		held, err := m.kubelet.Held(ctx)
		m.say.about(topicHolders, err)
		if err == nil {
			a.learn(m.books.raw.Devices, lacks, answers(lacks, held, s.pods), s.booting)
		}
	}
	for _, e := range a.found {
		if _, ok := slices.BinarySearchFunc(lacks, e, kubeletstate.DeviceEntry.Compare); ok {
			m.books.state.Devices.Give(e)
		}
	}
}

func (a *missingAllocations) asked(file []byte, lacks []kubeletstate.DeviceEntry) bool {
	return a.file != nil && bytes.Equal(a.file, file) && slices.EqualFunc(a.lacks, lacks, same)
}

func (a *missingAllocations) learn(file []byte, lacks, found []kubeletstate.DeviceEntry, booting bool) {
	if booting {
		file, found = nil, append(found, except(a.found, found)...)
	}
	*a = missingAllocations{file, lacks, found}
}

// The function same reports whether two entries are about one resource of one container.
func same(a, b kubeletstate.DeviceEntry) bool { return a.Compare(b) == 0 }

// lacking returns the missing entries for running pods that ask for registered resources:
// ascending, without devices. It omits init containers other than sidecars, because the kubelet
// does not report their resources.
func (m *mirror) lacking(s *sighting) []kubeletstate.DeviceEntry {
	written := m.books.state.Devices
	if written == nil {
		return nil
	}
	registered := m.devices.healthy(written)
	var out []kubeletstate.DeviceEntry
	for uid, f := range s.pods {
		if !s.admittedAlive(uid) {
			continue
		}
		for _, c := range f.containers {
			for _, resource := range c.devices {
				if _, ok := registered[resource]; !ok || c.kind == placement.Init {
					continue
				}
				e := kubeletstate.DeviceEntry{PodUID: uid, Container: c.name, Resource: resource}
				if _, has := slices.BinarySearchFunc(written.Entries, e, kubeletstate.DeviceEntry.Compare); !has {
					out = append(out, e)
				}
			}
		}
	}
	slices.SortFunc(out, kubeletstate.DeviceEntry.Compare)
	return out
}

// answers returns the entries of the kubelet's answer that are missing in the checkpoint.
func answers(
	lacks []kubeletstate.DeviceEntry, held map[string][]kubeletstate.DeviceEntry, pods map[string]podFacts,
) []kubeletstate.DeviceEntry {
	var out []kubeletstate.DeviceEntry
	for _, l := range lacks {
		f := pods[l.PodUID]
		for _, e := range held[f.key()] {
			if e.PodUID = l.PodUID; same(e, l) && len(e.Devices) > 0 {
				out = append(out, e)
			}
		}
	}
	return out
}

// except returns the entries that are not among the others. It does not compare devices.
func except(entries, others []kubeletstate.DeviceEntry) []kubeletstate.DeviceEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e kubeletstate.DeviceEntry) bool {
		return slices.ContainsFunc(others, func(o kubeletstate.DeviceEntry) bool { return same(o, e) })
	})
}
