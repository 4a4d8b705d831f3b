package cli

import (
	"fmt"
	"io"
	"strings"
)

// maxNamed bounds how many nodes of a group are named.
const maxNamed = 6

// write prints for people; limit is how many nodes are explained in full.
func (e *explained) write(w io.Writer, limit int) error {
	fmt.Fprintf(w, "pod %s/%s: %s\n", e.Namespace, e.Name, e.standing())
	fmt.Fprintf(w, "scheduler: %s\n", e.Scheduler)
	if e.Message != "" {
		fmt.Fprintf(w, "message: %s\n", e.Message)
	}
	for _, a := range e.Asks {
		fmt.Fprintf(w, "asks: %s\n", a)
	}
	if !e.Pinnable {
		fmt.Fprintln(w, "Berth lets it pass: it is not Guaranteed and asks for no devices, so no kubelet pins anything for it.")
	}
	if e.Node != "" {
		return e.writeBound(w)
	}
	e.writePending(w, limit)
	return nil
}

// standing is where the pod is, in half a sentence.
func (e *explained) standing() string {
	if e.Node == "" {
		return strings.ToLower(e.Phase) + ", on no node"
	}
	return strings.ToLower(e.Phase) + " on node " + e.Node
}

func (e *explained) writeBound(w io.Writer) error {
	var rows [][]string
	switch p := e.Promise; {
	case p != nil:
		fmt.Fprintf(w, "promised: NUMA nodes %s, %s, guarantee %s, Binding %d, decided on report %d\n", dash(p.NUMANodes), p.Certainty, p.Guarantee, p.Sequence, p.Report)
		rows = append(rows, containerRows("promise", p.Containers)...)
	case e.PromiseError != "":
		fmt.Fprintf(w, "promised: ignored, because it cannot be right: %s\n", e.PromiseError)
	case e.Pinnable:
		fmt.Fprintln(w, "promised: nothing; no placement came with its Binding (another scheduler, a static pod, or one bound by hand)")
	}
	if h := e.Holds; h != nil {
		fmt.Fprintf(w, "reported: %s, report %d, %s ago", h.state(), h.Report, ageText(h.AgeSeconds))
		if h.Alignment != "" {
			fmt.Fprintf(w, ", NUMA nodes %s (%s)", h.NUMANodes, alignmentWords[h.Alignment])
		}
		fmt.Fprintln(w)
		rows = append(rows, containerRows("report", h.Containers)...)
	}
	if e.Outcome != "" {
		fmt.Fprintf(w, "promise: %s\n", e.Outcome)
	}
	if e.Trouble != nil {
		fmt.Fprintf(w, "node %s: %s\n", e.Node, e.Trouble.Message)
		if e.Trouble.Advice != "" {
			indented(w, "do: "+e.Trouble.Advice)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return columns(w, "CONTAINER | SOURCE | NUMA | CPUS | MEMORY | DEVICES", rows)
}

var alignmentWords = map[string]string{"numa-node": "one NUMA node", "package": "one package", "machine": "across packages"}

// state is what the report says of the pod, in words.
func (h *holding) state() string {
	switch h.State {
	case stateAbsent:
		return "not in the report (it has not arrived, or holds nothing any more)"
	case "ended":
		return "ended, and still held by the kubelet"
	case "rejected":
		return "refused by the kubelet"
	case "unknown":
		return "held by the kubelet for a pod that its agent does not know"
	}
	return h.State
}

func containerRows(what string, containers []placedContainer) [][]string {
	var rows [][]string
	for i := range containers {
		c := &containers[i]
		rows = append(rows, []string{c.label(), what, dash(c.NUMANodes), c.cpusText(), dash(c.memoryText()), dash(c.devicesText())})
	}
	return rows
}

func (e *explained) writePending(w io.Writer, limit int) {
	if len(e.Groups) > 0 {
		fmt.Fprintf(w, "\n%s:\n", counted(len(e.Nodes), "node"))
	}
	for i := range e.Groups {
		e.Groups[i].write(w)
	}
	refusals := e.refusals()
	for _, a := range refusals[:min(len(refusals), limit)] {
		a.write(w)
	}
	if more := len(refusals) - limit; more > 0 {
		fmt.Fprintf(w, "\nNot shown: %s. --nodes N shows N of them, --node NAME one.\n", counted(more, "refusing node"))
	}
}

// refusals returns the nodes that refuse, beginning with one of each group.
func (e *explained) refusals() []*nodeAnswer {
	var first, others []*nodeAnswer
	seen := map[string]bool{}
	for i := range e.Nodes {
		switch a := &e.Nodes[i]; {
		case a.Refusal == nil:
		case seen[a.Message]:
			others = append(others, a)
		default:
			seen[a.Message] = true
			first = append(first, a)
		}
	}
	return append(first, others...)
}

func (g *nodeGroup) write(w io.Writer) {
	names := strings.Join(g.labels[:min(len(g.labels), maxNamed)], ", ")
	if len(g.Nodes) > maxNamed {
		names += ", ..."
	}
	indented(w, fmt.Sprintf("%s %s: %s\n  (%s)", counted(len(g.Nodes), "node"), g.verb(), g.Message, names))
	if g.Advice != "" {
		indented(w, "  do: "+g.Advice)
	}
}

// verb is empty where the message says it all.
func (g *nodeGroup) verb() string {
	if len(g.Nodes) == 1 {
		return map[string]string{answerAdmits: "admits", answerWaits: "waits", answerRefuses: "refuses", answerUntaken: "is not relied on", answerExcluded: "is excluded"}[g.Answer]
	}
	return map[string]string{answerAdmits: "admit", answerWaits: "wait", answerRefuses: "refuse", answerUntaken: "are not relied on", answerExcluded: "are excluded"}[g.Answer]
}

func (a *nodeAnswer) write(w io.Writer) {
	fmt.Fprintf(w, "\nnode %s (report %d", a.Node, a.Report)
	if a.InFlight > 0 {
		fmt.Fprintf(w, ", and %s bound since", counted(a.InFlight, "pod"))
	}
	fmt.Fprintln(w, "):")
	indented(w, a.Refusal.Table())
}
