//go:build !kube133 && !kube134 && !kube135 && !kube136

package oracle

import cadvisorapi "github.com/google/cadvisor/lib/model"

// What the managers are told about a machine. Since 1.37 these types are a module of their own.
type (
	cadvisorMachine   = cadvisorapi.MachineInfo
	cadvisorNode      = cadvisorapi.Node
	cadvisorCore      = cadvisorapi.Core
	cadvisorCache     = cadvisorapi.Cache
	cadvisorHugePages = cadvisorapi.HugePagesInfo
)
