//go:build !kube133 && !kube134 && !kube135 && !kube136

package oracle

import cadvisorapi "github.com/google/cadvisor/lib/model"

// The managers' description of a machine. Since 1.37 these types have their own module.
type (
	cadvisorMachine   = cadvisorapi.MachineInfo
	cadvisorNode      = cadvisorapi.Node
	cadvisorCore      = cadvisorapi.Core
	cadvisorCache     = cadvisorapi.Cache
	cadvisorHugePages = cadvisorapi.HugePagesInfo
)
