package steer

import (
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// excludedFor is the longest time for which a node that refused a pod in Reserve is excluded.
const excludedFor = time.Minute

// maxExcluded is the maximum number of exclusions. If it is reached, all exclusions are dropped,
// and each excluded node is tried once more.
const maxExcluded = 4096

// exclusions has, by pod, the nodes that the plugin refused in Reserve. Filter does not know which
// devices would be allocated, so without an exclusion it would accept such a node again. An
// exclusion ends when the node's slices or free resources change.
type exclusions struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	by    map[exclusion]excluded
}

type exclusion struct {
	pod  types.UID
	node string
}

type excluded struct {
	at    version
	until time.Time
	why   string
}

// version identifies a state of a node: its slices, and its free resources.
type version struct {
	count int
	sum   uint64
	free  uint64
}

// versionOf returns the version of a node. The order of the slices does not matter.
func versionOf(list []*resourceapi.ResourceSlice, free uint64) version {
	v := version{count: len(list), free: free}
	for _, s := range list {
		h := uint64(14695981039346656037) // FNV-1a
		for _, text := range [...]string{string(s.UID), "\x00", s.ResourceVersion} {
			for i := range len(text) {
				h = (h ^ uint64(text[i])) * 1099511628211
			}
		}
		v.sum += h
	}
	return v
}

func (e *exclusions) add(pod types.UID, node string, v version, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	if len(e.by) >= maxExcluded {
		for k, x := range e.by {
			if !now.Before(x.until) {
				delete(e.by, k)
			}
		}
	}
	if e.by == nil || len(e.by) >= maxExcluded {
		e.by = map[exclusion]excluded{}
	}
	e.by[exclusion{pod, node}] = excluded{v, now.Add(excludedFor), why}
}

// why returns the reason why the node is excluded for the pod, or "".
func (e *exclusions) why(pod types.UID, node string, v version) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := exclusion{pod, node}
	x, found := e.by[k]
	switch {
	case !found:
		return ""
	case x.at != v || !e.clock.Now().Before(x.until):
		delete(e.by, k)
		return ""
	}
	return x.why
}
