// Package featuregates knows the feature gates of each kubelet: one that it does not know, or that
// it has locked, keeps it from starting.
//
// The table has the constants of type Feature in pkg/features of k8s.io/kubernetes, and in those of
// apiserver, apiextensions-apiserver, client-go, component-base and controller-manager, which a
// kubelet registers too.
package featuregates

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/internal/suggest"
)

// Wrong returns the first gate, by name, with which the kubelet of release 1.minor does not start,
// with what the kubelet says of it; "" where all are right. Of a name that it does not know it adds
// the one that may have been meant.
func Wrong(gates map[string]bool, minor uint8) (name, why string) {
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if !knows(name, minor) {
			return name, "unrecognized feature gate: " + name + suggest.DidYouMean(name, Names(minor))
		}
		if to, is := lockedTo(name, minor); is && to != gates[name] {
			return name, fmt.Sprintf("cannot set feature gate %s to %t, feature is locked to %t", name, gates[name], to)
		}
	}
	return "", ""
}

// firstMinor is the oldest release of the tables.
const firstMinor = 33

// lockedTo says whether the release has locked a gate that it knows, and to what.
func lockedTo(name string, minor uint8) (to, is bool) {
	word := locked[name]
	if word == "" || minor < firstMinor || int(minor-firstMinor) >= len(word) {
		return false, false
	}
	value := word[minor-firstMinor]
	return value == 't', value != '-'
}

func knows(name string, minor uint8) bool {
	r, listed := table[name]
	return listed && minor >= r[0] && minor <= r[1]
}

// Names returns the gates of a release, ascending.
func Names(minor uint8) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(name string) bool { return !knows(name, minor) })
}
