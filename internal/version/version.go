// Package version has the release of Berth, and the Kubernetes release that it was built from.
package version

// Version is the release; the linker sets it (the Makefile's LDFLAGS).
var Version = "unknown"

const (
	// Kubernetes is the release whose scheduler and API types are built in (go.mod).
	Kubernetes = "v1.37.2"
	// Kubelets are the releases whose decisions are known.
	Kubelets = "1.33 to 1.37"
)

// Text returns what --version prints after the program's name.
func Text() string { return Version + ", Kubernetes " + Kubernetes + ", kubelets " + Kubelets }
