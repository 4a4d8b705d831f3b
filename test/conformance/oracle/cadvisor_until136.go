//go:build kube133 || kube134 || kube135 || kube136

package oracle

import cadvisorapi "github.com/google/cadvisor/info/v1"

// The managers' description of a machine. Until 1.36 cAdvisor has these types in info/v1.
type (
	cadvisorMachine   = cadvisorapi.MachineInfo
	cadvisorNode      = cadvisorapi.Node
	cadvisorCore      = cadvisorapi.Core
	cadvisorCache     = cadvisorapi.Cache
	cadvisorHugePages = cadvisorapi.HugePagesInfo
)
