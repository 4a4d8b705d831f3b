package whatif

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// Described returns err, the error of kubeletstate's Start functions, in the form that is right for
// the description of the machine. The argument memory is the memory_manager_state. A capture is
// exact. A machine string may lack huge pages or have rounded amounts. If this explains the
// difference from the file, Described returns a *topology.ParseError, because it is then unknown
// whether the kubelet starts.
func (n *Node) Described(err error, memory []byte) error {
	start, ok := errors.AsType[*kubeletstate.StartError](err)
	if !ok || start.Restoring || path.Base(start.Path) != kubeletstate.MemoryFile || !n.isString() {
		return err
	}
	file, unread := kubeletstate.ParseMemory(start.Path, memory)
	if unread != nil {
		return err
	}
	startup := n.Startup()
	for i := range file.Nodes {
		for _, r := range file.Nodes[i].Resources {
			name, id := r.Resource, file.Nodes[i].NUMA
			has := file.Nodes[i].Totals[name]
			want, known := totalOf(&startup, id, name)
			where := fmt.Sprintf("NUMA node %d of %s has %s of %d bytes", id, kubeletstate.MemoryFile, name, has)
			switch {
			case !known && name != amounts.Memory && !n.knowsHuge():
				return &topology.ParseError{Item: "huge", Value: "missing", Want: "all sizes of huge pages of the machine, such as huge:2Mi=0;1Gi=0, because " + where + "; or a capture of the machine"}
			case known && name == amounts.Memory && isRounded(want, has):
				return &topology.ParseError{Item: "mem", Value: fmt.Sprintf("%dMi", want>>20), Want: "the exact amount, MemTotal of /sys/devices/system/node/node*/meminfo in Ki, because " + where + " (numactl rounds down); or a capture of the machine"}
			case !known || has != want:
				start.Described = true
			}
		}
	}
	return start
}

// isString reports whether the machine is described by a machine string.
func (n *Node) isString() bool {
	file, _, _ := strings.Cut(n.spec.Machine, ":")
	_, err := os.Stat(file)
	return err != nil
}

// knowsHuge reports whether the machine string names huge pages.
func (n *Node) knowsHuge() bool {
	for i := range n.machine.NUMANodes {
		if len(n.machine.NUMANodes[i].HugePages) > 0 {
			return true
		}
	}
	return false
}

func totalOf(s *placement.Startup, id topology.NUMAID, resource string) (total uint64, known bool) {
	for _, m := range s.Memory {
		if m.NUMA == id && m.Resource == resource {
			return m.Total, true
		}
	}
	return 0, false
}

// isRounded reports whether rounded is exact in whole MiB, rounded down.
func isRounded(rounded, exact uint64) bool {
	return rounded != exact && rounded == exact>>20<<20
}
