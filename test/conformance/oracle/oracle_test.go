package oracle

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

func sample(gates map[string]bool) *cases.Case {
	cores := []cases.Core{{ID: 0, Threads: []topology.CPUID{0}}, {ID: 1, Threads: []topology.CPUID{1}}, {ID: 2, Threads: []topology.CPUID{2}}}
	one := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: one}}}}}
	pod.UID = "pod"
	return &cases.Case{
		Machine: cases.Machine{Nodes: []cases.Node{{Memory: 8 << 30, Distances: []uint64{10}, Cores: cores}}},
		Config:  cases.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", FeatureGates: gates},
		Events:  []cases.Event{{Type: cases.Admit, Pod: pod}},
	}
}

// TestFormerLife: a kubelet never reads files that the reconciliation of its predecessor writes
// later.
func TestFormerLife(t *testing.T) {
	c := sample(nil)
	restore, err := setGates(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	p := &player{c: c, dir: t.TempDir()}
	if err := p.boot(nil); err != nil {
		t.Fatal(err)
	}
	if r := p.event(&c.Events[0]); r.Admitted == nil || !*r.Admitted || r.Containers[0].CPUs != "1" {
		t.Fatalf("admission: %+v", r)
	}
	former := p.k
	if err := p.boot(former); err != nil {
		t.Fatal(err)
	}
	former.remove("pod")
	if got := p.k.cpu.GetExclusiveCPUs("pod", "c").String(); got != "1" {
		t.Fatalf("the second kubelet gives the pod CPUs %q, want 1", got)
	}
	if err := p.boot(p.k); err != nil {
		t.Fatal(err)
	}
	if got := p.k.cpu.GetExclusiveCPUs("pod", "c").String(); got != "1" {
		t.Errorf("the third kubelet read that the pod has CPUs %q, want 1", got)
	}
}

// TestGatesStayInTheirCase: gates that a case sets, or that the kubelet refuses to set, do not
// affect the next case.
func TestGatesStayInTheirCase(t *testing.T) {
	before := enabledGates()
	for _, gates := range []map[string]bool{
		{"CPUManagerPolicyOptions": false}, // locked
		{"AllAlpha": true, "AllBeta": false},
		{"PodLevelResources": false}, // other gates need it
		{"NoSuchGate": true},
		{"CPUManagerPolicyBetaOptions": false},
	} {
		if _, err := Run(sample(gates), Options{Dir: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		if after := enabledGates(); !maps.Equal(before, after) {
			t.Errorf("after %v gates differ: %v, before %v", gates, after, before)
		}
		if told, err := Run(sample(nil), Options{Dir: t.TempDir()}); err != nil || told.Result.StartupError != "" {
			t.Errorf("after %v a kubelet without gates does not start: %s, %v", gates, told.Result.StartupError, err)
		}
	}
}

func enabledGates() map[featuregate.Feature]bool {
	out := map[featuregate.Feature]bool{}
	for name := range utilfeature.DefaultFeatureGate.DeepCopy().GetAll() {
		out[name] = utilfeature.DefaultFeatureGate.Enabled(name)
	}
	return out
}
