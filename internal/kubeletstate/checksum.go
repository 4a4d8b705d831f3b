package kubeletstate

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
)

// A checkpoint's checksum is FNV-1a (32 bit) over the text that k8s.io/utils/dump.ForHash prints
// for the Go value (pkg/kubelet/checkpointmanager/checksum): spew's "%#v" with sorted keys and
// without methods. That text contains the names of the kubelet's types and distinguishes a nil map
// from an empty one. So dump writes it field by field, for the types in pkg/kubelet/cm/*/state and
// devicemanager/checkpoint.
type dump struct {
	out []byte
	// untyped means that a nil pointer has just been written, and that spew therefore leaves out
	// the type of the next field.
	untyped bool
}

func newDump(head string) *dump { return &dump{out: []byte(head)} }

func (d *dump) sum() uint32 {
	h := fnv.New32a()
	h.Write(d.out)
	return h.Sum32()
}

func (d *dump) text(s string) { d.out = append(d.out, s...) }

// null writes a pointer that is nil.
func (d *dump) null() {
	d.text("<nil>")
	d.untyped = true
}

// field begins a field of a struct.
func (d *dump) field(name, typ string) {
	if n := len(d.out); n > 0 && d.out[n-1] != '{' {
		d.text(" ")
	}
	d.text(name)
	d.text(":")
	if !d.untyped {
		d.text("(" + typ + ")")
	}
	d.untyped = false
}

func (d *dump) str(name, s string) {
	d.field(name, "string")
	d.text(s)
}

func (d *dump) uint(name string, v uint64) {
	d.field(name, "uint64")
	d.out = strconv.AppendUint(d.out, v, 10)
}

func (d *dump) number(v int) { d.out = strconv.AppendInt(d.out, int64(v), 10) }

// list writes a slice; element writes one element.
func list[V any](d *dump, all []V, element func(V)) {
	if all == nil {
		d.text("<nil>")
		return
	}
	d.text("[")
	for i, v := range all {
		if i > 0 {
			d.text(" ")
		}
		element(v)
	}
	d.text("]")
}

func (d *dump) ints(v []int)    { list(d, v, d.number) }
func (d *dump) strs(v []string) { list(d, v, d.text) }

// dumpMap writes a map in ascending order of its keys. The function key writes one key, and the
// function value writes one value.
func dumpMap[K cmp.Ordered, V any](d *dump, m map[K]V, key func(K), value func(V)) {
	if m == nil {
		d.text("<nil>")
		return
	}
	keys := slices.AppendSeq([]K{}, maps.Keys(m))
	slices.Sort(keys)
	d.text("map")
	list(d, keys, func(k K) {
		d.untyped = false
		key(k)
		d.text(":")
		value(m[k])
	})
}

// end closes the struct of a CPU or memory checkpoint, whose own checksum counts as 0.
func (d *dump) end() { d.text(" Checksum:(checksum.Checksum)0}") }

// sumText is the checksum of a string (the data field of Kubernetes 1.37).
func sumText(s string) uint32 { return newDump("(string)" + s).sum() }
