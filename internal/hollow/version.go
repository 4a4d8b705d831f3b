package hollow

import (
	"runtime/debug"
	"strings"
	"sync/atomic"
	_ "unsafe" // go:linkname
)

// dynamicGitVersion is what component-base/version.Get answers. A kubelet that is built as a dependency calls itself
// v0.0.0-master, which readers of Node.status.nodeInfo rightly refuse, and SetDynamicVersion admits no other release.
//
//go:linkname dynamicGitVersion k8s.io/component-base/version.dynamicGitVersion
var dynamicGitVersion atomic.Value

// kubernetesModule is the module whose version is the kubelet's.
const kubernetesModule = "k8s.io/kubernetes"

// setKubeletVersion lets the kubelet call itself by the release that is built in, unless the linker has said one.
func setKubeletVersion() {
	if v, _ := dynamicGitVersion.Load().(string); !strings.HasPrefix(v, "v0.0.0") {
		return
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == kubernetesModule {
				dynamicGitVersion.Store(dep.Version)
			}
		}
	}
}
