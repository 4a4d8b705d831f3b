package hollow

import (
	"strings"
	"sync/atomic"
	_ "unsafe" // go:linkname

	"github.com/berth-dev/berth/internal/version"
)

// KubeletVersion is the release of a hollow node's kubelet.
const KubeletVersion = version.Base

// dynamicGitVersion is what component-base/version.Get answers. A kubelet that is built as a
// dependency calls itself v0.0.0-master, which readers of Node.status.nodeInfo rightly refuse, and
// SetDynamicVersion admits no other release.
//
//go:linkname dynamicGitVersion k8s.io/component-base/version.dynamicGitVersion
var dynamicGitVersion atomic.Value

// setKubeletVersion lets the kubelet call itself by its release, unless the linker has said one.
func setKubeletVersion() {
	if v, _ := dynamicGitVersion.Load().(string); strings.HasPrefix(v, "v0.0.0") {
		dynamicGitVersion.Store(KubeletVersion)
	}
}
