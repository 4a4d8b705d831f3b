package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/survey/query"
	"github.com/berth-dev/berth/internal/wire"
)

// maxDevicesShown is the maximum number of devices that the output names for one NUMA node.
const maxDevicesShown = 4

// claimsText prints, for each claim of a pod, the devices on the nodes. Nodes with the same devices
// and answers are grouped.
func claimsText(w io.Writer, all []query.Claimed) error {
	for i := range all {
		c := &all[i]
		fmt.Fprintf(w, "\nclaim %s%s:\n", c.Name, because(claimText(c)))
		if c.Message != "" {
			indented(w, c.Message)
		}
		var rows [][]string
		left := slices.Clone(c.Nodes)
		for len(left) > 0 {
			first := left[0]
			same := func(n query.ClaimOnNode) bool { return sameDevices(&first, &n) }
			var names []string
			for _, n := range left {
				if same(n) {
					names = append(names, n.Node)
				}
			}
			left = slices.DeleteFunc(left, same)
			verb := claimVerb(c.Allocated, first.Near, len(names) == 1)
			indented(w, fmt.Sprintf("%s %s: %s\n  (%s)", wire.Counted(len(names), "node"), verb, first.Message, someNames(names)))
			for _, n := range first.NUMANodes {
				rows = append(rows, []string{someNames(names), n.NUMANode, yesNo(n.Near), someDevices(n.Free, n.FreeCount), someDevices(n.Taken, n.TakenCount), dash(n.Why)})
			}
		}
		if c.More > 0 {
			indented(w, wire.Counted(c.More, "other node")+" not asked; --node NAME asks one node")
		}
		if err := section(w, "", "NODES | NUMA | NEAR | FREE | TAKEN | WHY NOT", rows); err != nil {
			return err
		}
	}
	return nil
}

func claimText(c *query.Claimed) string {
	var parts []string
	if c.Claim != "" {
		parts = append(parts, "ResourceClaim "+c.Claim)
	}
	if c.Template != "" {
		parts = append(parts, "ResourceClaimTemplate "+c.Template)
	}
	if c.Asks != "" {
		parts = append(parts, wire.ClaimsAnnotation+": "+c.Asks)
	}
	return strings.Join(parts, ", ")
}

func sameDevices(a, b *query.ClaimOnNode) bool {
	return a.Near == b.Near && a.Message == b.Message && slices.EqualFunc(a.NUMANodes, b.NUMANodes, func(x, y query.ClaimOnNUMANode) bool {
		return x.NUMANode == y.NUMANode && x.Near == y.Near && x.Why == y.Why && x.FreeCount == y.FreeCount && x.TakenCount == y.TakenCount &&
			slices.Equal(x.Free, y.Free) && slices.Equal(x.Taken, y.Taken)
	})
}

func claimVerb(allocated, near, one bool) string {
	have := map[bool]string{true: "has", false: "have"}[one]
	switch {
	case near && allocated:
		return have + " them near the CPUs"
	case near:
		return have + " devices near the CPUs"
	}
	return have + " none near the CPUs"
}

// someDevices returns the first names, and the number of the other devices. The argument count is
// the number of all devices.
func someDevices(names []string, count int) string {
	shown := names[:min(len(names), maxDevicesShown)]
	if more := count - len(shown); more > 0 {
		return strings.Join(append(slices.Clone(shown), fmt.Sprintf("%d more", more)), ", ")
	}
	return dash(strings.Join(shown, ", "))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
