package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/internal/wire"
)

// mostOfCycle is how much processor time one cycle of a gang may cost.
const mostOfCycle = 250 * time.Millisecond

// TestGangCycle: one cycle of a gang, in which no other pod is placed, costs at most mostOfCycle,
// and normal gangs are planned. It needs an idle machine, and runs only with BERTH_GANG_CYCLES=1.
func TestGangCycle(t *testing.T) {
	if os.Getenv("BERTH_GANG_CYCLES") == "" {
		t.Skip("takes minutes and needs an idle machine: set BERTH_GANG_CYCLES=1")
	}
	klog.SetLogger(klog.Logger{})
	const nodes = 5000
	pinned := func(*corev1.Pod, int) {}
	for _, tc := range []struct {
		name    string
		members int
		whole   bool
		write   func(pod *corev1.Pod, i int)
	}{
		{"alike", 500, true, pinned},
		{"alike, 4096", 4096, true, pinned},
		{"a zone spread", 500, true, zoneSpread},
		{"a zone spread, 1000", 1000, true, zoneSpread},
		{"* alone", 1024, true, func(p *corev1.Pod, _ int) { p.Annotations[wire.OtherNUMAAnnotation] = "*" }},
		{"* and the next", 4096, false, func(p *corev1.Pod, i int) {
			p.Annotations[wire.OtherNUMAAnnotation] = "*," + nextOf(p, i, 4096, 1)
		}},
		{"64 names", 4096, false, func(p *corev1.Pod, i int) {
			p.Annotations[wire.OtherNUMAAnnotation] = nextOf(p, i, 4096, 64)
		}},
		{"a label each", 4096, true, func(p *corev1.Pod, i int) {
			p.Labels["own"] = strconv.Itoa(i)
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}},
		{"a byte more each", 4096, false, moreBytes},
		{"a selector each", 4096, false, func(p *corev1.Pod, i int) { p.Spec.NodeSelector = map[string]string{"x": strconv.Itoa(i)} }},
		{"a spread each", 4096, false, func(p *corev1.Pod, i int) {
			p.Labels["own"] = strconv.Itoa(i)
			zoneSpread(p, i)
		}},
		{"none for one", 500, false, func(p *corev1.Pod, i int) {
			zoneSpread(p, i)
			if i == 0 {
				p.Spec.NodeSelector = map[string]string{"no": "node"}
			}
		}},
		{"anti-affinity", 1000, true, antiAffine},
		{"hostnames", 1000, true, hostnameSpread},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := startCycles(t, cyclesOptions{who: berth, world: newWorld(t, nodes, nil), chart: true})
			c.lost = make(chan *corev1.Pod, 1<<16)
			pods := make([]*corev1.Pod, tc.members)
			name := "gang-" + strconv.Itoa(c.made)
			for i := range pods {
				pod := c.pod("known")
				pod.Labels = map[string]string{"app": "gang"}
				pod.Spec.Containers[0].Resources.Limits = amounts(2000, 512<<20)
				pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits
				pod.Name = fmt.Sprintf("%s-%d", name, i)
				pod.CreationTimestamp = metav1.Unix(1_800_000_000+int64(c.made/100), 0)
				pod.Annotations = map[string]string{wire.GangAnnotation: name, wire.GangMinimumAnnotation: strconv.Itoa(tc.members)}
				tc.write(pod, i)
				pods[i] = pod
				c.world.pods.Add(pod)
			}
			c.awaitPods()
			runtime.GC()
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			c.calm()
			c.sched.ScheduleOne(t.Context())
			spent := processorTime() - c.begun
			whole, why := true, ""
			for done := false; !done; {
				select {
				case lost := <-c.lost:
					if lost.UID == c.popped.UID {
						whole, why = false, fmt.Sprint(c.why)
					}
				default:
					done = true
				}
			}
			t.Logf("%d members: %v of processor time, whole %t %.300s", tc.members, spent, whole, why)
			if spent > mostOfCycle {
				t.Errorf("a cycle took %v of processor time, want %v at most", spent, mostOfCycle)
			}
			if whole != tc.whole {
				t.Errorf("whole %t, want %t", whole, tc.whole)
			}
		})
	}
}

func nextOf(p *corev1.Pod, i, members, names int) string {
	stem := p.Name[:strings.LastIndex(p.Name, "-")]
	var out []string
	for n := range names {
		out = append(out, fmt.Sprintf("%s-%d", stem, (i+1+n)%members))
	}
	return strings.Join(out, ",")
}

func zoneSpread(p *corev1.Pod, _ int) { spread(p, corev1.LabelTopologyZone) }

func hostnameSpread(p *corev1.Pod, _ int) { spread(p, corev1.LabelHostname) }

func spread(p *corev1.Pod, key string) {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "gang"}}}}
}

func antiAffine(p *corev1.Pod, _ int) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "gang"}},
	}}}}
}

func moreBytes(p *corev1.Pod, i int) {
	bytes := *resource.NewQuantity(512<<20+int64(i)<<12, resource.BinarySI)
	amounts := p.Spec.Containers[0].Resources.Limits.DeepCopy()
	amounts[corev1.ResourceMemory] = bytes
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: amounts, Requests: amounts}
}
