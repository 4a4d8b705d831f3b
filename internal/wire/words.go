package wire

import (
	"strconv"
	"strings"
)

// Texts about nodes in the scheduler's events and on the command line. They do not name the node,
// so that callers can count identical texts.
const (
	// NoReport means that the node has no NodeTopology.
	NoReport = "no NodeTopology: is berth-agent running there?"
	// NoSignOfLife means that the agent has been silent for longer than a report is valid.
	NoSignOfLife = "its berth-agent gave no sign of life for too long"
	// WaitsForReport means that the answer depends on the next report.
	WaitsForReport = "waiting for its next report"
)

// OfNodes converts a text about one node into the form that follows a number of nodes in events of
// kube-scheduler: "0/13 nodes are available: 2 node(s) whose kubelet's policy is none, ...".
func OfNodes(text string) string {
	for _, one := range []struct{ of, many string }{{"the kubelet", "whose kubelet"}, {"the node's ", "whose "}} {
		if rest, ok := strings.CutPrefix(text, one.of); ok {
			return "node(s) " + one.many + rest
		}
	}
	return "node(s) where " + text
}

// Counted returns a number with a noun in the singular or plural, like "1 node" or "2 nodes".
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
