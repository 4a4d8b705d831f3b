package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/wire"
)

// unit is a set of identical pods, or all pods of a gang.
type unit struct {
	row   trace.Pod // the row of the first pod
	gang  bool
	names []string
	count int
	// why is the reason why the unit cannot be simulated, or "".
	why string
}

// add adds count identical pods. err is the reason why they cannot be simulated, or nil.
func (u *unit) add(row *trace.Pod, count int, err error) {
	if len(u.names) == 0 {
		u.row = *row
	}
	u.names, u.count = append(u.names, row.Name), u.count+count
	switch first := &u.row; {
	case u.why != "":
	case err != nil:
		u.why = err.Error()
	case first.MilliCPU != row.MilliCPU || first.MiB != row.MiB || first.GPUs != row.GPUs || !maps.Equal(first.Others, row.Others):
		u.why = "members of the gang of " + u.names[0] + " ask for different amounts: want equal amounts for all members"
	case u.gang && u.count > trace.MaxMembers:
		u.why = fmt.Sprintf("a gang of more than %d members", trace.MaxMembers)
	}
}

// pods returns the rows of the unit.
func (u *unit) pods() (out []trace.Pod) {
	row := u.row
	if u.gang {
		row.Members = u.count
		return append(out, row)
	}
	for i := range u.count {
		if u.count > 1 {
			row.Name = fmt.Sprintf("%s-%d", u.row.Name, i)
		}
		out = append(out, row)
	}
	return out
}

// load collects the arriving pods.
type load struct {
	units []*unit
	gangs map[wire.GangKey]*unit
}

// add adds count pods with this row. err is the reason why they cannot be simulated, or nil.
func (l *load) add(pod *corev1.Pod, row trace.Pod, count int, err error) {
	row.Name = pod.Name
	if pod.Namespace != "" {
		row.Name = pod.Namespace + "/" + pod.Name
	}
	m, wrong := wire.ReadMembership(pod)
	gang := wrong == nil && !m.Gang.IsZero()
	u := l.gangs[m.Gang]
	if !gang || u == nil {
		u = &unit{gang: gang}
		l.units = append(l.units, u)
	}
	if gang {
		if l.gangs == nil {
			l.gangs = map[wire.GangKey]*unit{}
		}
		l.gangs[m.Gang] = u
	}
	u.add(&row, count, cmp.Or(wrong, err))
}

// maxSkipped is the maximum number of notes about pods that cannot be simulated.
const maxSkipped = 10

// rows returns the pods that can be simulated. The notes name the other pods with the reasons. If a
// pod cannot be simulated, its whole gang is left out. The argument what is the word for a pod in
// the notes.
func (l *load) rows(what string) (out []trace.Pod, notes []string) {
	names, counts := map[string][]string{}, map[string]int{}
	for _, u := range l.units {
		if u.why == "" {
			out = append(out, u.pods()...)
			continue
		}
		names[u.why], counts[u.why] = append(names[u.why], u.names...), counts[u.why]+u.count
	}
	reasons := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(reasons, func(a, b string) int { return counts[b] - counts[a] })
	for i, why := range reasons {
		if i == maxSkipped {
			notes = append(notes, fmt.Sprintf("more %ss not simulated, for %s", what, wire.Counted(len(reasons)-i, "other reason")))
			break
		}
		notes = append(notes, fmt.Sprintf("%s not simulated (%s): %s", wire.Counted(counts[why], what), someNames(names[why]), why))
	}
	return out, notes
}

// errTimeless is the reason why a timed simulation omits a pod without times.
var errTimeless = errors.New("no times: want metadata.creationTimestamp and spec.activeDeadlineSeconds")

// manifestLoad converts the pods of files to rows of a trace. The argument others has the names of
// the nodes' resources other than CPUs, memory and GPUs.
func manifestLoad(pods []manifest.Template, times *trace.Times, others []string) ([]trace.Pod, []string) {
	var l load
	for i := range pods {
		t := &pods[i]
		p, err := podOfManifest(t.Pod, others)
		if err == nil && times != nil && !p.Timed {
			err = errTimeless
		}
		l.add(t.Pod, p, t.Replicas, err)
	}
	return l.rows("pod")
}

// simulatedGPU is the resource of GPUs. Rows count them separately from other devices, which are in
// Others.
const simulatedGPU = "nvidia.com/gpu"

// maxSimulated is the largest amount of a resource in a simulation. It is 64 TiB of memory, and
// more CPUs than any node has.
const maxSimulated = 1 << 46

// podOfManifest converts the pod to a row of a trace. If the pod has creationTimestamp and
// activeDeadlineSeconds, it arrives at the former and runs for the latter.
func podOfManifest(pod *corev1.Pod, others []string) (p trace.Pod, err error) {
	for resource, amount := range wire.ReadAmounts(pod) {
		switch resource {
		case "cpu":
			p.MilliCPU = amount
		case "memory":
			p.MiB = mebibytes(amount)
		case simulatedGPU:
			p.GPUs, p.MilliGPU = int(amount), trace.Thousandths
		case "ephemeral-storage", "pods":
			continue
		default:
			if !slices.Contains(others, resource) {
				return p, unplayed(resource, others)
			}
			if p.Others == nil {
				p.Others = map[string]int64{}
			}
			p.Others[resource] = amount
		}
		most := int64(maxSimulated)
		if resource == simulatedGPU {
			most = trace.MaxGPUs
		}
		if amount < 0 || amount > most {
			wants, limit := amounts.Texts(resource, amount, most)
			return p, fmt.Errorf("a request for %s of %s: want 0 to %s", wants, resource, limit)
		}
	}
	if p.GPUs == 0 {
		p.MilliGPU = 0
	}
	deadline := pod.Spec.ActiveDeadlineSeconds
	if deadline == nil || pod.CreationTimestamp.IsZero() {
		return p, nil
	}
	if *deadline < 1 || *deadline > 1<<31-1 {
		return p, fmt.Errorf("activeDeadlineSeconds %d: want 1 to %d", *deadline, 1<<31-1)
	}
	p.Timed, p.Created = true, pod.CreationTimestamp.Unix()
	p.Deleted = p.Created + *deadline
	return p, nil
}

// unplayed returns the error about a resource that no node has.
func unplayed(resource string, others []string) error {
	known := append([]string{"cpu", "memory", simulatedGPU}, others...)
	last := len(known) - 1
	return fmt.Errorf("a request for %.60q: only %.200s and %.60s are simulated%s", resource, strings.Join(known[:last], ", "), known[last], amounts.Meant(resource, known...))
}
