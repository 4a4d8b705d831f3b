package ledger

import (
	"encoding/binary"

	"github.com/berth-dev/berth/placement"
)

// Shape identifies all parts of a Request on which its verdict depends. Requests with equal Shapes
// get equal verdicts in the same state. 0 means that the Shape is not known; answers for such
// requests are not cached.
type Shape uint64

// maxShapes is the maximum number of shapes that are known at one time.
const maxShapes = 1 << 16

// RequestKey returns a key of the request. Requests with equal keys get equal decisions in the same
// state.
func RequestKey(r *placement.Request) string { return string(requestKey(nil, r)) }

// requestKey appends the relevant parts of r, without its UID and the names of its containers. The
// length of each list and string comes before it, so that different requests have different keys.
func requestKey(b []byte, r *placement.Request) []byte {
	b = append(b, bit(r.Guaranteed)|bit(r.PodLevel)<<1|bit(r.EmptyLevel)<<2, byte(r.Rules.Policy), byte(r.Rules.Scope), byte(r.Rules.Match))
	c := &r.Rules.CPUs
	b = append(b, byte(c.Bind), byte(c.BindHow), byte(c.Exclusive), byte(c.ExclusiveHow), byte(c.L3), byte(r.Rules.Shares),
		bit(r.Rules.PinMemory)|bit(r.Rules.OwnCPUs)<<1|bit(r.Rules.MayWithhold)<<2, r.Rules.NUMANodes)
	d := &r.Rules.Devices
	b = append(b, byte(d.Same), byte(d.SameHow), byte(d.Joint), byte(d.OnePerFunction), byte(d.All), d.PerNode)
	b = appendString(appendString(b, r.Rules.Keep.Key()), r.Rules.Claimed.Key())
	if r.PodLevel {
		b = binary.AppendVarint(append(b, bit(r.Level.Guaranteed)), r.Level.MilliCPU)
		b = appendMemory(b, r.Level.Memory)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Containers)))
	for i := range r.Containers {
		b = appendContainer(b, &r.Containers[i])
	}
	return b
}

func appendContainer(b []byte, c *placement.ContainerRequest) []byte {
	b = append(b, byte(c.Kind)|bit(c.Guaranteed)<<7)
	b = binary.AppendVarint(b, c.MilliCPU)
	b = appendMemory(b, c.Memory)
	b = binary.AppendUvarint(b, uint64(len(c.Devices)))
	for _, d := range c.Devices {
		b = appendString(b, d.Resource)
		b = append(binary.AppendVarint(b, d.Count), bit(d.Claimed))
	}
	return b
}

func appendMemory(b []byte, all []placement.MemoryRequest) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for _, m := range all {
		b = appendString(b, m.Resource)
		b = append(binary.AppendUvarint(b, m.Bytes), bit(m.Fraction))
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}
