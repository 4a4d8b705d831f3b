package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/wire"
)

// readManifestLoad reads pods, and the pods of workloads. others are the resources other than CPUs,
// memory and GPUs that nodes have.
func readManifestLoad(cmd *cobra.Command, files, others []string) ([]trace.Pod, error) {
	name := strings.Join(files, ",")
	templates, notes, err := manifest.Source{Paths: files, Stdin: cmd.InOrStdin()}.Read()
	if err != nil {
		return nil, err
	}
	writeNotes(cmd, notes)
	var out []trace.Pod
	gangs := map[wire.GangKey]string{}
	for i := range templates {
		t := &templates[i]
		p, err := podOfManifest(t.Pod, others)
		if no := (*unplayed)(nil); errors.As(err, &no) {
			writeNotes(cmd, []string{fmt.Sprintf("%s of %s not played: %v", wire.Counted(t.Replicas, "pod"), t.Pod.Name, err)})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: pod %s: %w", name, t.Pod.Name, err)
		}
		m, err := wire.ReadMembership(t.Pod)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		switch other, known := gangs[m.Gang]; {
		case m.Gang.IsZero():
			for k := range t.Replicas {
				p.Name = fmt.Sprintf("%s/%s-%d-%d", t.Pod.Namespace, t.Pod.Name, i, k)
				out = append(out, p)
			}
		case known:
			return nil, fmt.Errorf("%s: pod %s: gang %s has pods of %s too: want the members of a gang alike, from one workload", name, t.Pod.Name, m.Gang.Name, other)
		case t.Replicas < 1 || t.Replicas > trace.MaxMembers:
			return nil, fmt.Errorf("%s: pod %s: a gang of %d: want 1 to %d members", name, t.Pod.Name, t.Replicas, trace.MaxMembers)
		default:
			gangs[m.Gang], p.Name, p.Members = t.Pod.Name, fmt.Sprintf("%s/%s-%d", t.Pod.Namespace, t.Pod.Name, i), t.Replicas
			out = append(out, p)
		}
	}
	return out, nil
}

// GPUs are the only devices of a simulation.
const simulatedGPU = "nvidia.com/gpu"

// maxSimulated bounds an amount: 64 TiB, and far more CPUs than there are.
const maxSimulated = 1 << 46

// podOfManifest is the pod as a row of a list. It comes at its creationTimestamp and runs until its
// activeDeadlineSeconds are over, where it has both.
func podOfManifest(pod *corev1.Pod, others []string) (p trace.Pod, err error) {
	for resource, amount := range wire.ReadAmounts(pod) {
		switch resource {
		case "cpu":
			p.MilliCPU = amount
		case "memory":
			p.MiB = (amount + 1<<20 - 1) >> 20
		case simulatedGPU:
			p.GPUs, p.MilliGPU = int(amount), trace.Thousandths
		case "ephemeral-storage", "pods":
			continue
		default:
			if !slices.Contains(others, resource) {
				return p, &unplayed{resource, others}
			}
			if p.Others == nil {
				p.Others = map[string]int64{}
			}
			p.Others[resource] = amount
		}
		if amount < 0 || amount > maxSimulated || resource == simulatedGPU && amount > trace.MaxGPUs {
			return p, fmt.Errorf("it asks for %d of %s: want an amount that a node could have", amount, resource)
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

// unplayed says that a pod asks for a resource that no node has.
type unplayed struct {
	resource string
	others   []string
}

func (e *unplayed) Error() string {
	known := append([]string{"cpu", "memory", simulatedGPU}, e.others...)
	last := len(known) - 1
	return fmt.Sprintf("it asks for %.60q: want %.200s and %.60s: nothing else is simulated%s", e.resource, strings.Join(known[:last], ", "), known[last], amounts.Meant(e.resource, known...))
}
