// Package release defines the kubelet releases whose decisions the engine knows.
package release

// Version is a kubelet release, as the minor number of 1.x (36 for v1.36).
type Version uint8

// The releases whose decisions are known: test/conformance compares them with the kubelets' own.
const (
	V133 Version = 33
	V134 Version = 34
	V135 Version = 35
	V136 Version = 36
	V137 Version = 37
)

// Known reports whether the engine has decisions for the release.
func (v Version) Known() bool { return v >= V133 && v <= V137 }
