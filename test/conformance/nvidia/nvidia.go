// Package nvidia chooses devices as NVIDIA's device plugin does, for the tests of placement/device.
package nvidia

import (
	"errors"
	"slices"
	"strings"
)

// Plugin chooses devices as NVIDIA's plugin does. It is a separate implementation of
// go-gpuallocator's best-effort policy (gpuallocator/besteffort_policy.go), and of
// k8s-device-plugin's choice among shared GPUs (internal/rm/allocate.go).
type Plugin struct {
	// IDs are all devices of the plugin.
	IDs []string
	// Points is how well two devices are connected.
	Points func(a, b string) int
}

// errPadding is the error for inputs on which the plugin crashes.
var errPadding = errors.New("the plugin would read a missing device")

// Preferred answers GetPreferredAllocation for one container. Among equally good sets it takes the
// first one in the order of available.
func (n *Plugin) Preferred(available, required []string, size int) ([]string, error) {
	shared := slices.ContainsFunc(n.IDs, func(id string) bool { return strings.HasPrefix(id, "MIG-") }) ||
		slices.ContainsFunc(available, func(id string) bool { return strings.Contains(id, "::") })
	if shared {
		return n.spread(available, required, size), nil
	}
	return n.together(available, required, size)
}

// together tries every way to divide the devices into sets.
func (n *Plugin) together(available, required []string, size int) ([]string, error) {
	if size == 1 {
		for _, id := range available {
			if len(required) == 0 || required[0] == id {
				return []string{id}, nil
			}
		}
	}
	devices := slices.Clone(available)
	for len(devices)%size != 0 {
		devices = append(devices, "")
	}
	holds := func(set []string) bool {
		return !slices.ContainsFunc(required, func(id string) bool { return !slices.Contains(set, id) })
	}
	var best [][]string
	most := 0
	for _, sets := range divided(devices, size) {
		ok := slices.ContainsFunc(sets, func(set []string) bool { return holds(set) && !slices.Contains(set, "") })
		sum := 0
		for _, set := range sets {
			sum += n.sum(set)
		}
		if ok && (best == nil || sum > most) {
			best, most = sets, sum
		}
	}
	var choice []string
	for _, set := range best {
		if holds(set) && (choice == nil || n.sum(set) > n.sum(choice)) {
			choice = set
		}
	}
	if slices.Contains(choice, "") {
		return nil, errPadding
	}
	return choice, nil
}

func (n *Plugin) sum(set []string) int {
	sum := 0
	for i, a := range set {
		for _, b := range set[i+1:] {
			if a != "" && b != "" {
				sum += n.Points(a, b)
			}
		}
	}
	return sum
}

// divided lists the ways to divide devices into sets of a size. The placeholders "", which stand
// for no device, are in one set.
func divided(devices []string, size int) [][][]string {
	if len(devices) == 0 {
		return [][][]string{nil}
	}
	var all [][][]string
	nothing := empties(devices)
	for _, others := range subsets(devices[1:], size-1) {
		set := append([]string{devices[0]}, others...)
		if empty := empties(set); empty != 0 && empty != nothing {
			continue
		}
		rest := slices.Clone(devices)
		for _, id := range set {
			at := slices.Index(rest, id)
			rest = slices.Delete(rest, at, at+1)
		}
		for _, sets := range divided(rest, size) {
			all = append(all, append([][]string{set}, sets...))
		}
	}
	return all
}

// empties counts the placeholders in a set.
func empties(set []string) (n int) {
	for _, id := range set {
		if id == "" {
			n++
		}
	}
	return n
}

// subsets lists the subsets of a size, those with the first devices first.
func subsets(devices []string, size int) [][]string {
	if size == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i := range devices {
		for _, more := range subsets(devices[i+1:], size-1) {
			all = append(all, append([]string{devices[i]}, more...))
		}
	}
	return all
}

// spread takes one device after the other, each from the GPU with the fewest in use.
func (n *Plugin) spread(available, required []string, size int) []string {
	gpu := func(id string) string { id, _, _ = strings.Cut(id, "::"); return id }
	chosen := slices.Clone(required)
	left := slices.DeleteFunc(slices.Clone(available), func(id string) bool { return slices.Contains(required, id) })
	inUse := func(of string) (used int) {
		for _, id := range n.IDs {
			if gpu(id) == of && !slices.Contains(left, id) {
				used++
			}
		}
		return used
	}
	for len(chosen) < size && len(left) > 0 {
		best := 0
		for i := range left {
			if inUse(gpu(left[i])) < inUse(gpu(left[best])) {
				best = i
			}
		}
		chosen = append(chosen, left[best])
		left = slices.Delete(left, best, best+1)
	}
	return chosen
}
