package agent

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
)

// claim is what a container asks of a device plugin.
type claim struct{ uid, container, resource string }

func claimOf(e kubeletstate.DeviceEntry) claim { return claim{e.PodUID, e.Container, e.Resource} }

func (c claim) compare(o claim) int {
	return cmp.Or(cmp.Compare(c.uid, o.uid), cmp.Compare(c.container, o.container), cmp.Compare(c.resource, o.resource))
}

// unwritten is what running containers hold and the kubelet's checkpoint lacks. Of an admission and a plugin that reports its devices
// at the same moment the older half can be written last, as with resources (deviceBook.unlisted).
type unwritten struct {
	// The kubelet was asked when its checkpoint was file and lacked these, ascending; file is nil while it has not been asked.
	file  []byte
	lacks []claim
	// found is its answer.
	found []kubeletstate.DeviceEntry
}

// recall adds to the books what the checkpoint lacks. The kubelet is asked only if it lacks something. While it starts it may not have
// read its own checkpoint: then what it says counts, and what it leaves out does not.
func (m *mirror) recall(ctx context.Context, file []byte, s *sighting) {
	lacks := m.lacking(s)
	u := &m.unwritten
	if asked := u.file != nil && bytes.Equal(u.file, file) && slices.Equal(u.lacks, lacks); !asked && len(lacks) > 0 && m.kubelet != nil {
		held, err := m.kubelet.Held(ctx)
		m.complain(&m.withheld, "the kubelet does not tell which devices its pods hold", err)
		if err == nil {
			found := answers(lacks, held, s.pods)
			if s.booting {
				file, found = nil, append(found, except(u.found, found)...)
			}
			*u = unwritten{file, lacks, found}
		}
	}
	for _, e := range u.found {
		if _, ok := slices.BinarySearchFunc(lacks, claimOf(e), claim.compare); ok {
			s.state.Devices.Give(e)
		}
	}
}

// lacking are the claims of running pods on registered resources for which the checkpoint says nothing, ascending. Init containers that
// end are left out: the kubelet does not tell what they hold.
func (m *mirror) lacking(s *sighting) []claim {
	if s.state.Devices == nil {
		return nil
	}
	written := map[claim]bool{}
	for _, e := range s.state.Devices.Entries {
		written[claimOf(e)] = true
	}
	registered := m.devices.healthy(s.state.Devices)
	r := reporter{sighting: s}
	var out []claim
	for uid, f := range s.pods {
		if !r.admittedAlive(uid) {
			continue
		}
		for _, c := range f.containers {
			for _, resource := range c.devices {
				if _, ok := registered[resource]; ok && c.kind != placement.Init && !written[claim{uid, c.name, resource}] {
					out = append(out, claim{uid, c.name, resource})
				}
			}
		}
	}
	slices.SortFunc(out, claim.compare)
	return out
}

// answers picks what the kubelet says of the claims.
func answers(lacks []claim, held map[string][]kubeletstate.DeviceEntry, pods map[string]podFacts) []kubeletstate.DeviceEntry {
	var out []kubeletstate.DeviceEntry
	for _, c := range lacks {
		f := pods[c.uid]
		for _, e := range held[f.key()] {
			if e.Container == c.container && e.Resource == c.resource && len(e.Devices) > 0 {
				e.PodUID = c.uid
				out = append(out, e)
			}
		}
	}
	return out
}

// except are the entries that are not of the same claim as one of the others.
func except(entries, others []kubeletstate.DeviceEntry) []kubeletstate.DeviceEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e kubeletstate.DeviceEntry) bool {
		return slices.ContainsFunc(others, func(o kubeletstate.DeviceEntry) bool { return claimOf(o) == claimOf(e) })
	})
}

// heldOf reads the kubelet's answer. Of pods that share a name nobody can tell which is meant, and none is told of.
func heldOf(pods []*podresources.PodResources) map[string][]kubeletstate.DeviceEntry {
	out := map[string][]kubeletstate.DeviceEntry{}
	for _, pod := range pods {
		key := pod.Namespace + "/" + pod.Name
		if _, twice := out[key]; twice {
			out[key] = nil
			continue
		}
		out[key] = []kubeletstate.DeviceEntry{}
		for _, c := range pod.Containers {
			for resource, devices := range devicesOf(c.Devices) {
				e := kubeletstate.DeviceEntry{Container: c.Name, Resource: resource}
				for _, d := range devices {
					e.Devices = append(e.Devices, kubeletstate.HeldDevice{ID: d.ID, NUMA: d.NUMA})
				}
				slices.SortFunc(e.Devices, func(a, b kubeletstate.HeldDevice) int { return compareIDs(a.ID, b.ID) })
				out[key] = append(out[key], e)
			}
		}
	}
	return out
}
