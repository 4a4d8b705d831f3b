//go:build kube135

package oracle

import "github.com/berth-dev/berth/placement"

// Version is the kubelet release that this package is built against.
const Version = placement.V135
