package placement

import "hash/maphash"

// Fingerprint is a hash of all that decides about the request but its UID: requests that are equal but for that get the
// same verdict from a state that knows neither pod. It does not allocate. Values differ from one process to the next.
func (r *Request) Fingerprint() uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	flags := byte(0)
	if r.Guaranteed {
		flags |= 1
	}
	if r.PodLevel {
		flags |= 2
	}
	h.WriteByte(flags)
	for i := range r.Containers {
		c := &r.Containers[i]
		h.WriteByte(byte(c.Kind))
		hashString(&h, c.Name)
		hashNumber(&h, uint64(c.MilliCPU))
		hashNumber(&h, uint64(len(c.Memory)))
		for j := range c.Memory {
			hashString(&h, c.Memory[j].Resource)
			hashNumber(&h, c.Memory[j].Bytes)
			hashBool(&h, c.Memory[j].Fraction)
		}
		hashNumber(&h, uint64(len(c.Devices)))
		for j := range c.Devices {
			hashString(&h, c.Devices[j].Resource)
			hashNumber(&h, uint64(c.Devices[j].Count))
			hashBool(&h, c.Devices[j].Claimed)
		}
	}
	return h.Sum64()
}

var fingerprintSeed = maphash.MakeSeed()

func hashString(h *maphash.Hash, s string) {
	hashNumber(h, uint64(len(s)))
	h.WriteString(s)
}

func hashNumber(h *maphash.Hash, v uint64) {
	var b [8]byte
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	h.Write(b[:])
}

func hashBool(h *maphash.Hash, v bool) {
	if v {
		h.WriteByte(1)
	} else {
		h.WriteByte(0)
	}
}
