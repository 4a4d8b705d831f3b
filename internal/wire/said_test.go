package wire

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// TestSaidInThePodsOwnWords: messages about a pod name the keys that the pod has, in any dialect.
// If Berth's own key and another one request the same, they name Berth's.
func TestSaidInThePodsOwnWords(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:1 l3:1 core:2 pu:2 mem:8Gi dist:10,21"))
	kubelet := placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0"}
	spreading := placement.Config{Authority: placement.AuthorityBerth, ReservedMilliCPU: 1000, Default: placement.Rules{}}
	spreading.Default.CPUs.Bind, spreading.Default.CPUs.BindHow = 2, 2 // as if the node had the label SpreadByPCPUs
	const single, full = `{"numaTopologyPolicy":"SingleNUMANode"}`, `{"requiredCPUBindPolicy":"FullPCPUs"}`
	for _, c := range []struct {
		said   string // keys and values, separated by blanks
		on     placement.Config
		unmet  string
		refuse string // the text of a refusal with all of Berth's keys
	}{
		{"berth.dev/policy=restricted", kubelet, "the pod's berth.dev/policy asks for restricted", "berth.dev/policy berth.dev/cpus"},
		{"volcano.sh/numa-topology-policy=restricted", kubelet, "the pod's volcano.sh/numa-topology-policy asks for exactly restricted", "volcano.sh/numa-topology-policy berth.dev/cpus"},
		{koordinatorNUMA + "=" + single, kubelet, "the pod's " + koordinatorNUMA + " asks for single-numa-node,scope=pod", koordinatorNUMA + " berth.dev/cpus"},
		{koordinatorNUMA + "=" + single + " berth.dev/policy=single-numa-node", kubelet, "the pod's berth.dev/policy asks for single-numa-node", "berth.dev/policy berth.dev/cpus"},
		{koordinatorCPUs + "=" + full + " " + koordinatorQoS + "=LSR", kubelet, "which the pod's " + koordinatorCPUs + " requires", "berth.dev/policy " + koordinatorCPUs},
		{koordinatorCPUs + "=" + full + " " + koordinatorQoS + "=LSR", spreading, "the node's CPU binding is spread, but the pod's " + koordinatorCPUs + " requires full-cores", ""},
		{koordinatorCPUs + "=" + full + " " + koordinatorQoS + "=LSR berth.dev/cpus=full-cores", kubelet, "which the pod's berth.dev/cpus requires", "berth.dev/policy berth.dev/cpus"},
		{koordinatorQoS + "=LS", kubelet, "", "berth.dev/policy " + koordinatorQoS},
		{koordinatorJoint + `={"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`, kubelet, "which the pod's " + koordinatorJoint + " requires", ""},
		{koordinatorHint + `={"gpu":{"requiredTopologyScope":"PCIe"}}`, kubelet, "which the pod's " + koordinatorHint + " requires", ""},
		{koordinatorHint + `={"rdma":{"vfSelector":{}}}`, kubelet, "which the pod's " + koordinatorHint + " requires", ""},
		{"berth.dev/functions=one-per-card", kubelet, "which the pod's berth.dev/functions requires", ""},
	} {
		m := made.ModelOf(t, view, c.on)
		pod := koordinatorPod("", "", "")
		for _, word := range strings.Split(c.said, " ") {
			key, value, _ := strings.Cut(word, "=")
			if pod.Annotations[key] = value; key == koordinatorQoS {
				pod.Labels[key] = value
			}
		}
		r, said, err := readRules(pod, true)
		if err != nil {
			t.Fatalf("%s: %v", c.said, err)
		}
		if got := said.In(Unmet(m, &placement.Request{Rules: r, Guaranteed: true, Containers: []placement.ContainerRequest{{MilliCPU: 2000}}})); c.unmet == "" && got != "" || !strings.Contains(got, c.unmet) {
			t.Errorf("%s: %q, want %q in it", c.said, got, c.unmet)
		}
		if got := said.In("berth.dev/policy berth.dev/cpus"); c.refuse != "" && got != c.refuse {
			t.Errorf("%s: %q, want %q", c.said, got, c.refuse)
		}
	}
}

// TestClassBesideWishes: if a class and an annotation contradict each other, the message has both,
// as they are written.
func TestClassBesideWishes(t *testing.T) {
	const label, cpus = `metadata.labels[koordinator.sh/qosClass]: `, `metadata.annotations[berth.dev/cpus]: `
	for _, c := range []struct{ class, says, want string }{
		{"LS", ExclusiveAnnotation + "=core", label + `"LS": want LSE or LSR with annotations that ask for exclusive CPUs`},
		{"LS", CPUsAnnotation + "=full-cores", label + `"LS": want LSE or LSR with the annotation berth.dev/cpus: full-cores, or shares there`},
		{"BE", CPUsAnnotation + "=spread,preferred", label + `"BE": want LSE or LSR with the annotation berth.dev/cpus: spread,preferred, or shares there`},
		{"LSR", CPUsAnnotation + "=shares", cpus + `"shares": want full-cores or spread with the label koordinator.sh/qosClass: LSR, or the class LS`},
		{"LSE", CPUsAnnotation + "=shares", cpus + `"shares": want full-cores or spread with the label koordinator.sh/qosClass: LSE, or the class LS`},
		{"LS", CPUsAnnotation + "=shares " + ExclusiveAnnotation + "=core", cpus + `"shares": want full-cores or spread with annotations`},
		{"", CPUsAnnotation + "=shares " + ExclusiveAnnotation + "=core", cpus + `"shares": want full-cores or spread with annotations`},
		{"LS", CPUsAnnotation + "=shares", ""},
		{"LSR", CPUsAnnotation + "=spread", ""},
	} {
		pod := koordinatorPod(c.class, "", "")
		for _, word := range strings.Split(c.says, " ") {
			key, value, _ := strings.Cut(word, "=")
			pod.Annotations[key] = value
		}
		if _, err := ReadRules(pod); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.class, c.says, err, c.want)
		}
	}
}
