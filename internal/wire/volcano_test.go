package wire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology"
)

// volcanoPod returns a pod with Volcano's annotation for a policy, and one container with this
// number of CPUs.
func volcanoPod(t *testing.T, policy, cpus string) *corev1.Pod {
	t.Helper()
	pod := podOf(t, `{metadata: {uid: p}, spec: {containers: [{name: c, resources: {limits: {cpu: "`+cpus+`", memory: 1Gi}}}]}}`)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, VolcanoPolicyAnnotation, policy)
	return pod
}

func TestVolcanoRules(t *testing.T) {
	exactly := func(p placement.Policy) placement.Rules {
		return placement.Rules{Policy: p, Match: placement.Exactly, OwnCPUs: true}
	}
	scoped := exactly(placement.PolicyRestricted)
	scoped.Scope = placement.PodScope
	for _, c := range []struct {
		name, policy, cpus, own string
		want                    placement.Rules
		wrong                   string
	}{
		{name: "best-effort", policy: "best-effort", cpus: "2", want: exactly(placement.PolicyBestEffort)},
		{name: "restricted", policy: "restricted", cpus: "2", want: exactly(placement.PolicyRestricted)},
		{name: "single-numa-node", policy: "single-numa-node", cpus: "2", want: exactly(placement.PolicySingleNUMANode)},
		{name: "none", policy: "none", cpus: "2"},
		{name: "empty", policy: "", cpus: "2"},
		{name: "part of a CPU", policy: "single-numa-node", cpus: "1500m"},
		{name: "misspelt", policy: "single-numa", cpus: "2", wrong: VolcanoPolicyAnnotation},
		{name: "in another case", policy: "Restricted", cpus: "2", wrong: VolcanoPolicyAnnotation},
		{name: "both the same", policy: "restricted", cpus: "2", own: "restricted,scope=pod", want: scoped},
		{name: "both, and not the same", policy: "restricted", cpus: "2", own: "best-effort", wrong: VolcanoPolicyAnnotation},
		{name: "none beside Berth's", policy: "none", cpus: "2", own: "best-effort", want: placement.Rules{Policy: placement.PolicyBestEffort}},
	} {
		pod := volcanoPod(t, c.policy, c.cpus)
		if c.own != "" {
			pod.Annotations[PolicyAnnotation] = c.own
		}
		ask, err := ReadPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		var wrong *FieldError
		switch {
		case c.wrong == "" && ask.RulesErr != nil, c.wrong != "" && !errors.As(ask.RulesErr, &wrong):
			t.Errorf("%s: %v", c.name, ask.RulesErr)
		case c.wrong != "" && !strings.Contains(wrong.Field, c.wrong):
			t.Errorf("%s: %v, want a word about %s", c.name, wrong, c.wrong)
		case ask.Request.Rules != c.want:
			t.Errorf("%s: read %+v, want %+v", c.name, ask.Request.Rules, c.want)
		}
	}
}

// TestVolcanoPassesOverOthers: the annotation has no effect on a pod without exclusive CPUs, nor on
// the annotations of other dialects. Only its spelling is checked.
func TestVolcanoPassesOverOthers(t *testing.T) {
	for name, c := range map[string]struct {
		policy, beside string // a key and its value
		want           placement.Rules
		wrong          string
	}{
		"alone":                     {"single-numa-node", "", placement.Rules{}, ""},
		"Berth's, the same":         {"single-numa-node", PolicyAnnotation + "=single-numa-node", placement.Rules{Policy: placement.PolicySingleNUMANode}, ""},
		"Berth's, another":          {"single-numa-node", PolicyAnnotation + "=restricted,scope=pod", placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope}, ""},
		"Koordinator's, the same":   {"restricted", koordinatorNUMA + `={"numaTopologyPolicy":"Restricted"}`, placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope}, ""},
		"Koordinator's, another":    {"best-effort", koordinatorNUMA + `={"numaTopologyPolicy":"Restricted"}`, placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope}, ""},
		"a class without CPUs":      {"single-numa-node", koordinatorQoS + "=LS", placement.Rules{Shares: joint.Preferred}, ""},
		"shares":                    {"single-numa-node", CPUsAnnotation + "=shares", placement.Rules{Shares: joint.Required}, ""},
		"misspelt":                  {"single-numa", "", placement.Rules{}, VolcanoPolicyAnnotation},
		"misspelt, beside Berth's":  {"single-numa", PolicyAnnotation + "=restricted", placement.Rules{}, VolcanoPolicyAnnotation},
		"Berth's, that is misspelt": {"restricted", PolicyAnnotation + "=restrictd", placement.Rules{}, PolicyAnnotation},
	} {
		pod := podOf(t, `{spec: {containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi, example.com/gpu: 1}}}]}}`)
		pod.Annotations, pod.Labels = map[string]string{VolcanoPolicyAnnotation: c.policy}, map[string]string{}
		if key, value, _ := strings.Cut(c.beside, "="); key == koordinatorQoS {
			pod.Labels[key] = value
		} else if key != "" {
			pod.Annotations[key] = value
		}
		ask, err := ReadPod(pod)
		if err != nil || (ask.RulesErr == nil) != (c.wrong == "") || ask.RulesErr != nil && !strings.Contains(ask.RulesErr.Error(), c.wrong) || ask.Request.Rules != c.want {
			t.Errorf("%s: %+v, %v, %v; want %+v", name, ask.Request.Rules, ask.RulesErr, err, c.want)
		}
		if r, err := ReadRules(pod); r != ask.Request.Rules || fmt.Sprint(err) != fmt.Sprint(ask.RulesErr) {
			t.Errorf("%s: %+v, %v by its rules alone", name, r, err)
		}
	}
}

func volcanoNode(t *testing.T, machine string, cfg placement.Config) *placement.Model {
	t.Helper()
	return made.Model(t, machine, cfg)
}

// TestVolcanoNodes has the table "Scheduling Prediction" of the product's page, and the conditions
// of filterNodeByPolicy in the document: the nodes to which a pod with a policy may go.
func TestVolcanoNodes(t *testing.T) {
	policies := []string{"none", "best-effort", "restricted", "single-numa-node"}
	for _, asked := range policies {
		for _, has := range policies {
			node := volcanoNode(t, "package:2 numa:1 core:4 pu:1", placement.Config{
				CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: has,
			})
			ask, err := ReadPod(volcanoPod(t, asked, "2"))
			if err != nil {
				t.Fatal(err)
			}
			why := Unmet(node, &ask.Request)
			if fits := asked == "none" || asked == has; fits != (why == "") {
				t.Errorf("%s on a node with %s: %q", asked, has, why)
			}
			anywhere := BestEffortAnywhere(ask.Request.Rules)
			if why := Unmet(node, &placement.Request{Rules: anywhere}); asked == "best-effort" && why != "" || asked != "best-effort" && anywhere != ask.Request.Rules {
				t.Errorf("%s anywhere on a node with %s: %q, %+v", asked, has, why, anywhere)
			}
		}
		idle := volcanoNode(t, "package:2 numa:1 core:4 pu:1", placement.Config{TopologyManagerPolicy: asked})
		ask, _ := ReadPod(volcanoPod(t, asked, "2"))
		if why := Unmet(idle, &ask.Request); asked != "none" && !strings.Contains(why, "CPU manager is not static") {
			t.Errorf("%s on a node without static: %q", asked, why)
		}
	}
}

// TestVolcanoExample is the example in section 11 of the document: two NUMA nodes of four CPUs, of
// which 0 and 1 are in use, and a task of three CPUs.
func TestVolcanoExample(t *testing.T) {
	for _, c := range []struct {
		policy, taken string
		want          string // "" if the pod is refused
	}{
		{"best-effort", "0-1", "4-6"},
		{"single-numa-node", "0-1", "4-6"},
		{"single-numa-node", "0-1,4-5", ""},
		{"best-effort", "0-1,4-5", "2-3,6"},
		{"restricted", "0-1,4-5", ""},
	} {
		node := volcanoNode(t, "package:2 numa:1 core:4 pu:1", placement.Config{
			CPUManagerPolicy: "static", ReservedSystemCPUs: c.taken, TopologyManagerPolicy: c.policy,
		})
		ask, err := ReadPod(volcanoPod(t, c.policy, "3"))
		if err != nil || Unmet(node, &ask.Request) != "" {
			t.Fatal(err, Unmet(node, &ask.Request))
		}
		var d placement.Decision
		v := placement.Decide(node.NewState(), &ask.Request, &d)
		got := ""
		if v.OK() {
			got = d.Containers[0].CPUs.String()
		}
		if got != c.want {
			t.Errorf("%s with %s in use: CPUs %q (%v), want %q", c.policy, c.taken, got, v, c.want)
		}
	}
}

// TestVolcanoProductPage has the amounts of the product's page, on its machine: 32 CPUs, the first
// 16 on NUMA node 0.
func TestVolcanoProductPage(t *testing.T) {
	const machine = "package:2 numa:1 core:16 pu:1"
	var deployment appsv1.Deployment
	data, err := os.ReadFile(filepath.Join("..", "..", "test", "volcano", "documents", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, &deployment); err != nil {
		t.Fatal(err)
	}
	single := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	for _, c := range []struct {
		policy string
		pod    *corev1.Pod
		nodes  int // 0 if the pod is refused
	}{
		{"single-numa-node", single, 1},
		{"best-effort", volcanoPod(t, "best-effort", "20"), 2},
		{"single-numa-node", volcanoPod(t, "single-numa-node", "20"), 0},
		{"restricted", volcanoPod(t, "restricted", "20"), 2},
	} {
		node := volcanoNode(t, machine, placement.Config{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: c.policy})
		ask, err := ReadPod(c.pod)
		if err != nil || ask.RulesErr != nil || Unmet(node, &ask.Request) != "" {
			t.Fatal(err, ask.RulesErr, Unmet(node, &ask.Request))
		}
		var d placement.Decision
		v := placement.Decide(node.NewState(), &ask.Request, &d)
		nodes := 0
		if v.OK() {
			cpus := d.Containers[0].CPUs
			first, _ := topology.ParseCPUList("0-15")
			if cpus.Intersects(&first) {
				nodes++
			}
			if rest := cpus.AndNot(&first); !rest.IsEmpty() {
				nodes++
			}
		}
		if nodes != c.nodes {
			t.Errorf("%s: on %d NUMA nodes (%v), want %d", c.policy, nodes, v, c.nodes)
		}
	}
}
