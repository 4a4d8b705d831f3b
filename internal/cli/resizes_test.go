package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

// TestResizesAreShown: pods, node and explain show the progress of a resize about which Berth
// decides.
func TestResizesAreShown(t *testing.T) {
	decided := func(generation uint64, gib uint64, cpus ...topology.CPUID) wire.Placement {
		p := wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Authority: placement.AuthorityBerth,
			Decision: placement.Decision{UID: "uid-pod", Containers: []placement.ContainerDecision{{Name: "main", Hint: placement.Hint{Any: true}, CPUs: topology.NewCPUSet(cpus...),
				Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 1, Bytes: gib << 30}}}}}}
		if generation > 1 {
			p.Generation = generation
		}
		return p
	}
	told := func(status corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: wire.ResizeCondition, Status: status, Reason: "ResizeDeferred", Message: "container main: too few CPUs"}}
	}
	for name, c := range map[string]struct {
		spec, allocated string // CPUs
		api, carried    wire.Placement
		conditions      []corev1.PodCondition
		state, cpus     string
		want            string // "" if there is no resize
	}{
		"no resize":                {"2", "2", decided(1, 1, 1, 9), decided(1, 1, 1, 9), nil, "admitted ", "1,9 ", ""},
		"one that is done":         {"4", "4", decided(2, 1, 1, 2, 9, 10), decided(2, 1, 1, 2, 9, 10), told(corev1.ConditionTrue), "admitted ", "1-2,9-10 ", ""},
		"it grows":                 {"4", "4", decided(2, 2, 1, 2, 9, 10), decided(1, 1, 1, 9), told(corev1.ConditionTrue), "admitted, resize moving", "1,9 -> 1-2,9-10", "moving: decision 2: main: CPUs 1,9 -> 1-2,9-10, memory 1Gi -> 2Gi; the node has not carried it out yet"},
		"it has not left its CPUs": {"1", "1", decided(3, 1, 1), decided(3, 1, 1, 9), nil, "admitted, resize moving", "1,9 -> 1 ", "moving: decision 3: main: CPUs 1,9 -> 1; the node"},
		"its limit is high":        {"2", "2", decided(3, 1, 1, 9), decided(3, 2, 1, 9), nil, "admitted, resize moving", "1,9 ", "moving: decision 3: main: memory 2Gi -> 1Gi; the node"},
		"Berth defers it":          {"4", "4", decided(1, 1, 1, 9), decided(1, 1, 1, 9), told(corev1.ConditionFalse), "admitted, resize deferred", "1,9 ", "deferred: container main: too few CPUs; the scheduler tries again"},
		"it was deferred once":     {"2", "2", decided(1, 1, 1, 9), decided(1, 1, 1, 9), told(corev1.ConditionFalse), "admitted ", "1,9 ", ""},
		"it is not decided":        {"4", "4", decided(1, 1, 1, 9), decided(1, 1, 1, 9), nil, "admitted, resize allocated", "1,9 ", "allocated: main: cpu 2000m -> 4000m: the scheduler has not decided yet"},
		"it is not allocated":      {"4", "2", decided(1, 1, 1, 9), decided(1, 1, 1, 9), nil, "admitted, resize asked", "1,9 ", "asked: main: cpu 2 -> 4: the kubelet has not allocated it yet"},
		"the kubelet defers it": {"4", "2", decided(1, 1, 1, 9), decided(1, 1, 1, 9), []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "the node is full"}},
			"admitted, resize deferred", "1,9 ", "deferred: the node is full; the kubelet tries again"},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := onePod(t, "n1")
			c.api.Decision.UID, c.carried.Decision.UID = string(pod.UID), string(pod.UID)
			text, err := wire.WritePlacement(&c.api)
			if err != nil {
				t.Fatal(err)
			}
			amounts := func(cpus string) corev1.ResourceList {
				return corev1.ResourceList{"cpu": resource.MustParse(cpus), "memory": *resource.NewQuantity(int64(wire.DecidedAmounts(&c.api.Decision.Containers[0]).Bytes), resource.BinarySI)}
			}
			pod.Annotations = map[string]string{wire.PlacementAnnotation: text}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts(c.spec), Limits: amounts(c.spec)}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: amounts(c.allocated)}}
			pod.Status.Conditions = c.conditions
			report := obeying(t, "n1")
			held := *c.carried.Decision.Held()
			held.Generation = c.carried.Generation
			report.Report.Snapshot.Pods, report.Report.Pods = []placement.PodAllocation{held}, []wire.ReportedPod{{Namespace: pod.Namespace, Name: pod.Name}}
			report.Report.Snapshot.SharedCPUs = report.Report.Snapshot.SharedCPUs.AndNot(&held.Containers[0].CPUs)
			w.addTopology(report, nil)
			never, below, node, explained, drawn := []string(nil), "", "", "", ""
			if c.want == "" {
				never = []string{"resize"}
			} else {
				state, message, _ := strings.Cut(c.want, ": ")
				drawn = "resize " + state
				below, node, explained = "pod default/pod: resize "+c.want, message, "resize: "+c.want
			}
			(&asked{args: []string{"pods"}, want: []string{c.state, c.cpus, below}, never: never}).check(t, w)
			(&asked{args: []string{"explain", "pod"}, want: []string{explained}, never: never}).check(t, w)
			(&asked{args: []string{"nodes", "n1", "-o", "svg"}, want: []string{drawn}, never: never}).check(t, w)
			(&asked{args: []string{"nodes", "n1"}, want: []string{node}, never: never}).check(t, w)
		})
	}
}
