// Package release defines the kubelet releases whose decisions the engine can predict.
package release

// Version is a kubelet release, as the minor number of 1.x (36 for v1.36).
type Version uint8

// The releases whose decisions the engine predicts. test/conformance compares the predictions with
// the kubelets' own decisions.
const (
	V133 Version = 33
	V134 Version = 34
	V135 Version = 35
	V136 Version = 36
	V137 Version = 37
)

// Known reports whether the engine can predict the decisions of the release.
func (v Version) Known() bool { return v >= V133 && v <= V137 }
