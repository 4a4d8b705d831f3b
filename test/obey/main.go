// Command obey creates pods from a seed on a real control plane with hollow nodes of authority
// berth. The nodes have genuine kubelets without managers, NRI's own adaptation, the agent's
// plugin, and files instead of cgroups. Pods start and end, urgent pods evict others, and agents
// and the scheduler are killed at random.
//
// The command reads the cgroups all the time. The last line of its output is JSON. The exit code is
// 1 if a count that must be zero is not, or if a pod with room on a node did not run.
package main

import (
	"github.com/berth-dev/berth/test/devices"
	"github.com/berth-dev/berth/test/koordinator"
	"github.com/berth-dev/berth/test/obeying"
	"github.com/berth-dev/berth/test/resize"
)

func main() { obeying.Main(koordinator.Trial(), devices.Trial(), resize.Trial()) }
