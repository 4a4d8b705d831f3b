// Package version has the release of Berth, and the Kubernetes release that it was built from.
package version

import (
	"runtime/debug"
	"strings"
)

// Version is the release; the linker sets it (the Makefile's LDFLAGS).
var Version = "unknown"

const (
	// Base is the release of Kubernetes that go.mod requires.
	Base = "v1.37.2"
	// Kubelets are the releases of the kubelet that Berth can predict.
	Kubelets = "1.33 to 1.37"
)

// Kubernetes returns the release of Kubernetes that this program was built from. It may differ from
// Base, because there are builds of berth-scheduler for several releases.
func Kubernetes() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Base
	}
	return kubernetesOf(info)
}

// kubernetesOf derives the release from the version of k8s.io/api, which is v0.X.Y in v1.X.Y. If
// the program does not record the versions of its modules, as in a test, kubernetesOf returns Base.
func kubernetesOf(info *debug.BuildInfo) string {
	for _, m := range info.Deps {
		if m.Path != "k8s.io/api" {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if release, ok := strings.CutPrefix(m.Version, "v0."); ok {
			return "v1." + release
		}
	}
	return Base
}

// Text returns what --version prints after the program's name.
func Text() string { return Version + ", Kubernetes " + Kubernetes() + ", kubelets " + Kubelets }
