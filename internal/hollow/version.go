package hollow

import (
	"strings"
	"sync/atomic"
	_ "unsafe" // go:linkname

	"github.com/berth-dev/berth/internal/version"
)

// KubeletVersion is the release of a hollow node's kubelet.
const KubeletVersion = version.Base

// dynamicGitVersion is the version that component-base/version.Get returns. If the kubelet is built
// as a dependency, this version is v0.0.0-master. Programs that check kubeletVersion in
// Node.status.nodeInfo reject it. SetDynamicVersion cannot change it to another release.
//
//go:linkname dynamicGitVersion k8s.io/component-base/version.dynamicGitVersion
var dynamicGitVersion atomic.Value

// setKubeletVersion makes the kubelet report its real release, unless the linker has set a version.
func setKubeletVersion() {
	if v, _ := dynamicGitVersion.Load().(string); strings.HasPrefix(v, "v0.0.0") {
		dynamicGitVersion.Store(KubeletVersion)
	}
}
