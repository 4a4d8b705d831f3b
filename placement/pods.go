package placement

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
)

type podTable struct {
	pods []podRef // ascending by uid
	uids uids     // the UIDs in pods
	last uint64   // the highest podRef.order so far
}

// podRef is a pod with a number for the order of admission. The allocation in a podRef is never
// changed, only replaced by another allocation.
type podRef struct {
	uid   string
	order uint64
	pod   *PodAllocation
}

// pod returns the allocation of a pod, or nil.
func (t *podTable) pod(uid string) *PodAllocation {
	if !t.uids.mayHave(uid) {
		return nil
	}
	if i, ok := t.find(uid); ok {
		return t.pods[i].pod
	}
	return nil
}

func (t *podTable) find(uid string) (int, bool) {
	return slices.BinarySearchFunc(t.pods, uid, func(p podRef, uid string) int { return strings.Compare(p.uid, uid) })
}

// put stores a pod. A pod that the table already has keeps its place in the order of admission.
func (t *podTable) put(p *PodAllocation) {
	i, ok := t.find(p.UID)
	if ok {
		t.pods[i].pod = p
		return
	}
	t.last++
	t.uids.add(p.UID)
	t.pods = slices.Insert(t.pods, i, podRef{uid: p.UID, order: t.last, pod: p})
}

func (t *podTable) drop(i int) {
	t.pods = slices.Delete(t.pods, i, i+1)
	t.uids = uids{}
	for j := range t.pods {
		t.uids.add(t.pods[j].uid)
	}
}

func (t *podTable) byOrder() []*PodAllocation {
	refs := slices.Clone(t.pods)
	slices.SortFunc(refs, func(a, b podRef) int { return cmp.Compare(a.order, b.order) })
	pods := make([]*PodAllocation, len(refs))
	for i := range refs {
		pods[i] = refs[i].pod
	}
	return pods
}

// holderOf returns the UID of the pod that has a device, or "".
func (t *podTable) holderOf(resource, id string) string {
	for i := range t.pods {
		for _, c := range t.pods[i].pod.Containers {
			for _, a := range c.Devices {
				if a.Resource == resource && slices.Contains(a.IDs, id) {
					return t.pods[i].uid
				}
			}
		}
	}
	return ""
}

// sameOrder reports whether both tables have the same pods in the same order of admission. The
// values of podRef.order may differ.
func (t *podTable) sameOrder(o *podTable) bool {
	for i := range t.pods {
		if t.pods[i].order != o.pods[i].order {
			return t.sameRanks(o)
		}
	}
	return true
}

func (t *podTable) sameRanks(o *podTable) bool {
	for i := range t.pods {
		for j := range i {
			if (t.pods[i].order < t.pods[j].order) != (o.pods[i].order < o.pods[j].order) {
				return false
			}
		}
	}
	return true
}

func (t *podTable) checkDevices() error {
	type device struct{ resource, id string }
	holder := map[device]string{}
	for i := range t.pods {
		pod := t.pods[i].pod
		for j := range pod.Containers {
			c := &pod.Containers[j]
			for _, a := range c.Devices {
				if !slices.IsSorted(a.IDs) {
					return contradiction(containerField(pod, c, "devices"), a.Resource, "ids in ascending order")
				}
				for _, id := range a.IDs {
					if uid, held := holder[device{a.Resource, id}]; held && uid != pod.UID {
						return contradiction(containerField(pod, c, "devices"), a.Resource+" "+id, "a device that pod "+uid+" does not hold")
					}
					holder[device{a.Resource, id}] = pod.UID
				}
			}
		}
	}
	return nil
}

// container returns the allocation of a container, or nil.
func (p *PodAllocation) container(name string) *ContainerAllocation {
	if p == nil {
		return nil
	}
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// devices returns the container's devices of a resource, and whether there is an entry for the
// resource.
func (c *ContainerAllocation) devices(resource string) ([]string, bool) {
	if c == nil {
		return nil, false
	}
	for i := range c.Devices {
		if c.Devices[i].Resource == resource {
			return c.Devices[i].IDs, true
		}
	}
	return nil, false
}

// uids is a Bloom filter of UIDs, which shows quickly that a node does not have a pod. A search in
// the table would read the UIDs of several pods from memory. On a large cluster, this would take
// longer than the rest of an admission.
type uids [8]uint64

var uidSeed = maphash.MakeSeed()

func (u *uids) add(uid string) {
	h := maphash.String(uidSeed, uid)
	u[h>>6%8] |= 1 << (h % 64)
}

// mayHave returns false only if the UID was never added.
func (u *uids) mayHave(uid string) bool {
	h := maphash.String(uidSeed, uid)
	return u[h>>6%8]>>(h%64)&1 == 1
}
