package topology

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MaxLinks is the maximum number of links of a Machine.
const MaxLinks = 16384

// The kinds of links. The zero value is not a kind.
const (
	_ LinkKind = iota
	// NVLink connects GPUs of NVIDIA, directly or through NVSwitch.
	NVLink
	// XGMI connects GPUs of AMD (Infinity Fabric).
	XGMI
)

var linkNames = [...]string{NVLink: "nvlink", XGMI: "xgmi"}

// String returns the kind as a machine string spells it.
func (k LinkKind) String() string { return spell(k, linkNames[:]) }

// CompareAddresses orders PCI addresses; a longer domain ("10000:") comes after every domain of
// four digits.
func CompareAddresses(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// CompareLinks orders links by their addresses.
func CompareLinks(a, b Link) int {
	return cmp.Or(CompareAddresses(a.A, b.A), CompareAddresses(a.B, b.B))
}

func (m *Machine) checkLinks() error {
	if len(m.Links) > MaxLinks {
		return &Violation{"machine", "Links", fmt.Sprint(len(m.Links)), fmt.Sprintf("at most %d", MaxLinks)}
	}
	for i, l := range m.Links {
		object := fmt.Sprintf("link %.40s to %.40s", l.A, l.B)
		switch {
		case l.Kind != NVLink && l.Kind != XGMI:
			return &Violation{object, "Kind", l.Kind.String(), "nvlink or xgmi"}
		case l.Count == 0:
			return &Violation{object, "Count", "0", "a number of links from 1 to 255"}
		case CompareAddresses(l.A, l.B) >= 0:
			return &Violation{object, "B", l.B, "a device with a higher address than A"}
		case i > 0 && CompareLinks(m.Links[i-1], l) >= 0:
			return &Violation{object, "A", l.A, "links in ascending order, each pair of devices once"}
		case m.Device(l.A) == nil:
			return &Violation{object, "A", l.A, "the address of a device of this machine"}
		case m.Device(l.B) == nil:
			return &Violation{object, "B", l.B, "the address of a device of this machine"}
		}
	}
	return nil
}

// Links in a machine string:
//
//	link:nvlink=18,18:00.0+19:00.0+3a:00.0|9a:00.0+9b:00.0
//
// Devices joined by + are all connected to one another. Each pair of them has the given number of
// links, here 18.

// appendLinks appends one item for each kind and number of links. In an item, devices that are all
// connected to one another, and to no other devices, form one set. All other pairs are separate
// sets.
func appendLinks(b []byte, links []Link) []byte {
	type bundle struct {
		kind  LinkKind
		count uint8
	}
	bundleOf := func(l Link) bundle { return bundle{l.Kind, l.Count} }
	var done []bundle
	for _, l := range links {
		of := bundleOf(l)
		if slices.Contains(done, of) {
			continue
		}
		done = append(done, of)
		b = fmt.Appendf(b, " link:%s=%d", of.kind, of.count)
		b = appendSets(b, linkedSets(slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return bundleOf(l) != of })))
	}
	return b
}

// appendSets writes sets of addresses, as in ",a+b|c+d".
func appendSets(b []byte, sets [][]string) []byte {
	sep := ","
	for _, set := range sets {
		for _, address := range set {
			b = append(append(b, sep...), shortAddress(address)...)
			sep = "+"
		}
		sep = "|"
	}
	return b
}

// linkedSets divides links of one item into sets of devices that are all connected to one another.
func linkedSets(links []Link) [][]string {
	part := map[string]int{} // by device, the number of its connected component
	members := map[int][]string{}
	size := map[int]int{}
	for i, l := range links {
		for _, address := range []string{l.A, l.B} {
			if _, known := part[address]; !known {
				part[address] = 2*i + len(members[2*i])
				members[part[address]] = []string{address}
			}
		}
		if a, b := part[l.A], part[l.B]; a != b {
			for _, address := range members[b] {
				part[address] = a
			}
			members[a] = append(members[a], members[b]...)
			size[a] += size[b]
			delete(members, b)
		}
		size[part[l.A]]++
	}
	var out [][]string
	told := map[int]bool{}
	for _, l := range links {
		p := part[l.A]
		switch n := len(members[p]); {
		case size[p] != n*(n-1)/2:
			out = append(out, []string{l.A, l.B})
		case !told[p]:
			told[p] = true
			out = append(out, slices.SortedFunc(slices.Values(members[p]), CompareAddresses))
		}
	}
	return out
}

func (p *parser) parseLinks() error {
	for _, text := range p.links {
		if err := p.parseLinkItem(text); err != nil {
			return err
		}
	}
	slices.SortStableFunc(p.m.Links, CompareLinks)
	return nil
}

func (p *parser) parseLinkItem(text string) error {
	const form = "KIND=COUNT,ADDRESS+ADDRESS|ADDRESS+ADDRESS, KIND being nvlink or xgmi"
	head, sets, ok := strings.Cut(text, ",")
	kind, count, has := strings.Cut(head, "=")
	k := LinkKind(max(slices.Index(linkNames[:], kind), 0))
	if !ok || !has || k == 0 || kind == "" {
		return &ParseError{"link", text, form}
	}
	n, err := parseNumber(count, math.MaxUint8)
	if err != nil || n == 0 {
		return &ParseError{"link", text, "a number of links from 1 to 255"}
	}
	for set := range strings.SplitSeq(sets, "|") {
		devices := strings.Split(set, "+")
		if len(devices) < 2 {
			return &ParseError{"link", set, form}
		}
		if len(p.m.Links)+len(devices)*(len(devices)-1)/2 > MaxLinks {
			return &ParseError{"link", set, fmt.Sprintf("at most %d links", MaxLinks)}
		}
		for i := range devices {
			for j := range i {
				a, b := longAddress(devices[j]), longAddress(devices[i])
				if CompareAddresses(a, b) > 0 {
					a, b = b, a
				}
				p.m.Links = append(p.m.Links, Link{A: a, B: b, Kind: k, Count: uint8(n)})
			}
		}
	}
	return nil
}
