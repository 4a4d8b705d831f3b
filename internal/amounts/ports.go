package amounts

import (
	"fmt"
	"slices"
)

// Port is a host port that a pod uses.
type Port struct {
	// IP is the requested address; AnyIP means all addresses.
	IP string
	// Protocol is as in a Pod: TCP, UDP, SCTP.
	Protocol string
	Number   int32
}

// AnyIP stands for every address of the node.
const AnyIP = "0.0.0.0"

func (p Port) String() string { return fmt.Sprintf("%s:%d/%s", p.IP, p.Number, p.Protocol) }

// bars reports whether p and q conflict: two pods on one node cannot use them at the same time.
func (p Port) bars(q Port) bool {
	return q.Number == p.Number && q.Protocol == p.Protocol && (q.IP == p.IP || q.IP == AnyIP || p.IP == AnyIP)
}

// Taken describes the first of the ports that a pod on the node already uses. It returns "" if all
// ports are free.
func (n *Node) Taken(ports []Port) string {
	for _, p := range ports {
		if slices.ContainsFunc(n.ports, p.bars) {
			return p.String()
		}
	}
	return ""
}
