package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
)

// labelGPUModel is where the GPU operator writes which GPUs a node has.
const labelGPUModel = "nvidia.com/gpu.product"

// startFrom begins an experiment with the cluster of a snapshot. Where no other pods come, the ones
// that wait there arrive.
func startFrom(cmd *cobra.Command, snapshot string, others bool, e *simulate.Experiment) error {
	c, err := openSnapshot(snapshot, metav1.NamespaceDefault)
	if err != nil {
		return err
	}
	s, err := c.Survey(cmd.Context(), "")
	if err != nil {
		return err
	}
	found, notes := s.Start(cmd.Context(), c)
	var nodes []simulate.StartNode
	for i := range found {
		n, err := startNode(&found[i], s.Now)
		if err != nil {
			return fmt.Errorf("--snapshot %s: node %s: %w", snapshot, found[i].Name, err)
		}
		nodes = append(nodes, n)
	}
	writeNotes(cmd, append(s.Notes, notes...))
	if len(nodes) == 0 {
		return fmt.Errorf("--snapshot %s: no node may be given pods: want at least one that reports", snapshot)
	}
	if e.Start, err = simulate.NewStart(nodes); err != nil {
		return fmt.Errorf("--snapshot %s: %w", snapshot, err)
	}
	e.Nodes, e.Ground = e.Start.Nodes(), e.Start.Ground
	if others {
		return nil
	}
	waiting, err := s.Waiting(cmd.Context(), c)
	if err != nil {
		return err
	}
	if e.Pods, err = waitingLoad(waiting, e.Times); err == nil && len(e.Pods) == 0 {
		err = fmt.Errorf("no pod waits for a node there: want --trace, a list of pods that arrive")
	}
	if err != nil {
		return fmt.Errorf("--snapshot %s: %w", snapshot, err)
	}
	return nil
}

// startNode is the node in the simulator's words.
func startNode(n *survey.StartNode, now time.Time) (out simulate.StartNode, err error) {
	out = simulate.StartNode{Machine: n.Machine, Model: n.Model, State: n.State, KeptCPU: n.Kept["cpu"], KeptMiB: mebibytes(n.Kept["memory"])}
	out.Node = trace.Node{Name: n.Name, MilliCPU: n.Has["cpu"], MiB: n.Has["memory"] >> 20, GPUs: int(n.Has[simulatedGPU]), GPUModel: n.Object.Labels[labelGPUModel]}
	if out.MilliCPU < 1 || out.MilliCPU > maxSimulated || out.MiB < 1 || n.Has[simulatedGPU] > trace.MaxGPUs {
		return out, fmt.Errorf("status.allocatable: %d thousandths of a CPU, %d MiB, %d of %s: want an amount of each that a node could have", out.MilliCPU, out.MiB, out.GPUs, simulatedGPU)
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Asks["cpu"] > maxSimulated || p.Asks[simulatedGPU] > trace.MaxGPUs {
			return out, fmt.Errorf("pod %s/%s asks for %d thousandths of a CPU and %d of %s: want an amount that a node could have",
				p.Pod.Namespace, p.Pod.Name, p.Asks["cpu"], p.Asks[simulatedGPU], simulatedGPU)
		}
		out.Pods = append(out.Pods, simulate.StartPod{UID: string(p.Pod.UID), Request: p.Request, MilliCPU: p.Asks["cpu"], MiB: mebibytes(p.Asks["memory"]),
			GPUs: int(p.Asks[simulatedGPU]), Left: secondsLeft(p.Pod, now), Stays: p.Stays != ""})
	}
	return out, nil
}

// mebibytes rounds up.
func mebibytes(bytes int64) int64 { return bytes>>20 + (bytes&(1<<20-1)+1<<20-1)>>20 }

// secondsLeft is how long the pod may run yet; 0 where nothing ends it.
func secondsLeft(pod *corev1.Pod, now time.Time) int64 {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0
	}
	began := pod.CreationTimestamp.Time
	if pod.Status.StartTime != nil {
		began = pod.Status.StartTime.Time
	}
	return max(1, *pod.Spec.ActiveDeadlineSeconds-int64(now.Sub(began).Seconds()))
}

// waitingLoad is pods that wait, as rows of a list. Where time passes, all come at its beginning,
// and run until their deadline, or until the end.
func waitingLoad(pods []corev1.Pod, times *trace.Times) (out []trace.Pod, err error) {
	gangs := map[wire.GangKey]int{}
	for i := range pods {
		pod := &pods[i]
		name := pod.Namespace + "/" + pod.Name
		p, err := podOfManifest(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", name, err)
		}
		p.Name, p.Timed, p.Created, p.Deleted = name, false, 0, 0
		if times != nil && times.Load == 0 {
			p.Timed, p.Deleted = true, int64(times.For.Seconds())
			if d := pod.Spec.ActiveDeadlineSeconds; d != nil {
				p.Deleted = *d
			}
		}
		m, err := wire.ReadMembership(pod)
		if err != nil {
			return nil, err
		}
		at, known := gangs[m.Gang]
		switch {
		case m.Gang.IsZero():
			out = append(out, p)
		case !known:
			gangs[m.Gang], p.Members = len(out), 1
			out = append(out, p)
		case out[at].MilliCPU != p.MilliCPU || out[at].MiB != p.MiB || out[at].GPUs != p.GPUs:
			return nil, fmt.Errorf("pod %s: it asks for other amounts than %s of its gang %s: want the members of a gang alike", name, out[at].Name, m.Gang.Name)
		case out[at].Members == trace.MaxMembers:
			return nil, fmt.Errorf("pod %s: gang %s has more than %d members: want fewer", name, m.Gang.Name, trace.MaxMembers)
		default:
			out[at].Members++
		}
	}
	return out, nil
}
