package steer

import (
	"hash/maphash"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/bounded"
)

// excludedFor is the longest time for which a node is excluded for a pod.
const excludedFor = time.Minute

// maxExcluded is the maximum number of exclusions. If there are more, some are dropped, and their
// nodes are tried once more.
const maxExcluded = 4096

// exclusions records, by pod, the nodes that the plugin refused in Reserve or later. Filter does
// not know which devices would be allocated, so without an exclusion it would accept the node
// again. An exclusion ends when the node's slices or free resources change, or after excludedFor.
type exclusions struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	by    bounded.Map[exclusion, excluded]
}

func newExclusions(c clock.PassiveClock) exclusions {
	return exclusions{clock: c, by: bounded.New[exclusion, excluded](maxExcluded)}
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
		v.sum += maphash.Comparable(seed, [...]string{string(s.UID), s.ResourceVersion})
	}
	return v
}

// seed is the seed of the hashes of slices, which are compared only within this process.
var seed = maphash.MakeSeed()

func (e *exclusions) add(pod types.UID, node string, v version, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.by.Set(exclusion{pod, node}, excluded{v, e.clock.Now().Add(excludedFor), why})
}

// why returns the reason why the node is excluded for the pod, or "".
func (e *exclusions) why(pod types.UID, node string, v version) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := exclusion{pod, node}
	x, found := e.by.Get(k)
	switch {
	case !found:
		return ""
	case x.at != v || !e.clock.Now().Before(x.until):
		e.by.Delete(k)
		return ""
	}
	return x.why
}
