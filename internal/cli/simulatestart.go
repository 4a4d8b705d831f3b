package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
	"github.com/berth-dev/berth/internal/survey/query"
)

// labelGPUModel is the label in which NVIDIA's GPU operator publishes the model of a node's GPUs.
const labelGPUModel = "nvidia.com/gpu.product"

// start gives an experiment the nodes and running pods of the cluster. If the user names no files
// with pods, the waiting pods of the cluster arrive.
func (q *simulateQuestion) start(cmd *cobra.Command, e *simulate.Experiment) error {
	c, err := q.cluster.connect()
	if err != nil {
		return err
	}
	s, err := c.Survey(cmd.Context(), "")
	if err != nil {
		return err
	}
	found, notes := query.Start(cmd.Context(), c, s)
	var nodes []simulate.StartNode
	for i := range found {
		n, err := startNode(&found[i], s.Now)
		if err != nil {
			return fmt.Errorf("%s: node %s: %w", q.where(), found[i].Name, err)
		}
		nodes = append(nodes, n)
	}
	writeNotes(cmd, append(s.Notes, notes...))
	if len(nodes) == 0 {
		return fmt.Errorf("%s: no node accepts new pods: want at least one schedulable node with a usable report", q.where())
	}
	nodes, e.Pods, err = q.change.apply(nodes, q.span())
	if err != nil {
		return err
	}
	if e.Start, err = simulate.NewStart(nodes); err != nil {
		return fmt.Errorf("%s: %w", q.where(), err)
	}
	e.Nodes, e.Ground = e.Start.Nodes(), e.Start.Ground
	if len(q.files) > 0 {
		return nil
	}
	waiting, err := query.Waiting(cmd.Context(), c)
	if err != nil {
		return err
	}
	pods, notes := waitingLoad(waiting, e.Times, e.Start.Others())
	writeNotes(cmd, notes)
	e.Pods = append(e.Pods, pods...)
	return nil
}

func startNode(n *query.StartNode, now time.Time) (out simulate.StartNode, err error) {
	out = simulate.StartNode{Machine: n.Machine, Model: n.Model, State: n.State, KeptCPU: n.Kept["cpu"], KeptMiB: mebibytes(n.Kept["memory"]), Others: othersIn(n.Has), KeptOthers: othersIn(n.Kept)}
	out.Node = trace.Node{Name: n.Name, MilliCPU: n.Has["cpu"], MiB: n.Has["memory"] >> 20, GPUs: int(n.Has[simulatedGPU]), GPUModel: n.Object.Labels[labelGPUModel]}
	switch {
	case out.MilliCPU < 1 || out.MilliCPU > maxSimulated:
		return out, fmt.Errorf("status.allocatable: %dm CPU: want 1m to %dm", out.MilliCPU, maxSimulated)
	case out.MiB < 1:
		return out, fmt.Errorf("status.allocatable: %d bytes of memory: want at least 1 MiB", n.Has["memory"])
	case n.Has[simulatedGPU] > trace.MaxGPUs:
		return out, fmt.Errorf("status.allocatable: %d of %s: want at most %d", n.Has[simulatedGPU], simulatedGPU, trace.MaxGPUs)
	}
	for i := range n.Pods {
		p := &n.Pods[i]
		if p.Asks["cpu"] > maxSimulated || p.Asks[simulatedGPU] > trace.MaxGPUs {
			return out, fmt.Errorf("pod %s/%s asks for %dm CPU and %d of %s: want at most %dm CPU and %d of %s",
				p.Pod.Namespace, p.Pod.Name, p.Asks["cpu"], p.Asks[simulatedGPU], simulatedGPU, maxSimulated, trace.MaxGPUs, simulatedGPU)
		}
		out.Pods = append(out.Pods, simulate.StartPod{UID: string(p.Pod.UID), Request: p.Request, MilliCPU: p.Asks["cpu"], MiB: mebibytes(p.Asks["memory"]),
			GPUs: int(p.Asks[simulatedGPU]), Others: othersIn(p.Asks), Left: secondsLeft(p.Pod, now), Stays: p.Stays != ""})
	}
	return out, nil
}

// mebibytes converts bytes to MiB, rounded up.
func mebibytes(bytes int64) int64 { return bytes>>20 + (bytes&(1<<20-1)+1<<20-1)>>20 }

// secondsLeft returns the remaining time of the pod in seconds, at least 1. It returns 0 if nothing
// ends the pod.
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

// othersIn returns the amounts of huge pages and of devices other than GPUs, or nil.
func othersIn(all amounts.List) (out map[string]int64) {
	for name, amount := range all {
		if name != simulatedGPU && amount > 0 && (amounts.IsExtended(name) || strings.HasPrefix(name, "hugepages-")) {
			if out == nil {
				out = map[string]int64{}
			}
			out[name] = amount
		}
	}
	return out
}

// waitingLoad converts waiting pods to rows of a trace. The argument others has the names of the
// nodes' resources other than CPUs, memory and GPUs. In a timed simulation, all pods arrive at the
// beginning and run until their deadline or the end.
func waitingLoad(pods []corev1.Pod, times *trace.Times, others []string) ([]trace.Pod, []string) {
	var l load
	for i := range pods {
		p, err := podOfManifest(&pods[i], others)
		p.Timed, p.Created, p.Deleted = false, 0, 0
		if times != nil {
			p.Timed, p.Deleted = true, int64(times.For.Seconds())
			if d := pods[i].Spec.ActiveDeadlineSeconds; d != nil {
				p.Deleted = *d
			}
		}
		l.add(&pods[i], p, 1, err)
	}
	return l.rows("waiting pod")
}
