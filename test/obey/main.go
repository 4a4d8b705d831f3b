// Command obey creates pods from a seed on a real control plane with hollow nodes of authority
// berth. These have genuine kubelets without managers, NRI's own adaptation, the agent's plugin,
// and files instead of cgroups. Pods come and go, urgent ones evict others, agents and the
// scheduler are killed at random.
//
// It reads the cgroups all the time. The last line is one of JSON; the exit code is 1 unless every
// zero in it is zero, and every pod for which there is room ran.
package main

import (
	"github.com/berth-dev/berth/test/devices"
	"github.com/berth-dev/berth/test/koordinator"
	"github.com/berth-dev/berth/test/obeying"
	"github.com/berth-dev/berth/test/resize"
)

func main() { obeying.Main(koordinator.Trial(), devices.Trial(), resize.Trial()) }
