// Package featuregates knows the names of the feature gates of each kubelet: one that it does not
// know keeps it from starting.
//
// The table has the constants of type Feature in pkg/features of k8s.io/kubernetes, and in those of
// apiserver, apiextensions-apiserver, client-go, component-base and controller-manager, which a
// kubelet registers too.
package featuregates

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/internal/suggest"
)

// Unknown returns the first gate, by name, that the kubelet of release 1.minor does not know, with
// what the kubelet says of it and the name that may have been meant; "" where it knows all.
func Unknown(gates map[string]bool, minor uint8) (name, why string) {
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if !knows(name, minor) {
			return name, "unrecognized feature gate: " + name + suggest.DidYouMean(name, Names(minor))
		}
	}
	return "", ""
}

func knows(name string, minor uint8) bool {
	r, listed := table[name]
	return listed && minor >= r[0] && minor <= r[1]
}

// Names returns the gates of a release, ascending.
func Names(minor uint8) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(name string) bool { return !knows(name, minor) })
}
