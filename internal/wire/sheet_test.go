package wire

import (
	"os"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

// sheet returns the section of docs/concepts.md that lists the annotations.
func sheet(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/concepts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\n## Annotations\n")
	if !found {
		t.Fatal("docs/concepts.md has no section Annotations")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// sheetNodes are the kinds of nodes in the table of annotations, each with the configuration of its
// kubelet or of Berth. The policies of all other managers are none.
var sheetNodes = map[string]placement.Config{
	"none":              {},
	"static":            {CPUManagerPolicy: "static"},
	"full-pcpus-only":   {CPUManagerPolicy: "static", CPUManagerPolicyOptions: map[string]string{"full-pcpus-only": "true"}},
	"distribute":        {CPUManagerPolicy: "static", CPUManagerPolicyOptions: map[string]string{"distribute-cpus-across-cores": "true"}, FeatureGates: map[string]bool{"CPUManagerPolicyAlphaOptions": true}},
	"memory":            {MemoryManagerPolicy: "Static", ReservedMemory: []placement.ReservedMemory{{NUMA: 0, Limits: map[string]uint64{"memory": 1 << 30}}}},
	"best-effort":       {CPUManagerPolicy: "static", TopologyManagerPolicy: "best-effort"},
	"restricted":        {CPUManagerPolicy: "static", TopologyManagerPolicy: "restricted", TopologyManagerPolicyOptions: map[string]string{"prefer-closest-numa-nodes": "true"}},
	"single-numa-node":  {CPUManagerPolicy: "static", TopologyManagerPolicy: "single-numa-node"},
	"berth":             {Authority: placement.AuthorityBerth},
	"berth by koordlet": {Authority: placement.AuthorityBerth, MemoryStays: true},
}

// sheetNeeds maps each phrase in the table's last column to the kinds of nodes that it names, in
// addition to nodes with authority berth.
var sheetNeeds = map[string][]string{
	"any":             {"none", "static", "full-pcpus-only", "distribute", "memory", "best-effort", "restricted", "single-numa-node"},
	"authority berth": nil,
	"authority berth, or a kubelet with full-pcpus-only":                                {"full-pcpus-only"},
	"authority berth, or a kubelet with distribute-cpus-across-cores":                   {"distribute"},
	"authority berth, or a kubelet with `cpuManagerPolicy: none`":                       {"none", "memory"},
	"authority berth without koordlet, or a kubelet with `memoryManagerPolicy: Static`": {"memory"},
	// The pod requests CPUs and devices that fit on one NUMA node.
	"authority berth, or a kubelet that is sure to use that number":                      {"restricted", "single-numa-node"},
	"authority berth; for `perNUMANode` also a kubelet that is sure to give that number": {"restricted", "single-numa-node"},
	"authority berth, or a kubelet with this scope and this or a stricter policy":        {"restricted", "single-numa-node"},
}

// sheetValues has values for annotations that the table describes in words. For policy, numa-nodes
// and perNUMANode, the kubelet's answer depends on the value: restricted and 1 show the difference.
var sheetValues = map[string][]string{
	PolicyAnnotation:    {"restricted"},
	NUMANodesAnnotation: {"1"},
	DevicesAnnotation:   {"perNUMANode=1"},
}

// TestTheSheetSaysWhichNodes compares the table's last column with the answer of each kind of node
// about a pod with the annotation.
func TestTheSheetSaysWhichNodes(t *testing.T) {
	view := made.View(t, shapes.Machine("package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21"))
	models := map[string]*placement.Model{}
	for kind, cfg := range sheetNodes {
		cfg.ReservedMilliCPU = 1000
		models[kind] = made.ModelOf(t, view, cfg)
	}
	asked, key := 0, ""
	link, word := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`), regexp.MustCompile("`([^`]+)`")
	for _, line := range strings.Split(sheet(t), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") && !strings.HasPrefix(cells[1], " `"+OwnPrefix) {
			continue
		}
		if found := word.FindStringSubmatch(cells[1]); found != nil {
			key = found[1]
		}
		if strings.HasPrefix(key, GangAnnotation) {
			continue // alone they require nothing of a node
		}
		needs := link.ReplaceAllString(strings.TrimSpace(cells[3]), "$1")
		kinds, known := sheetNeeds[needs]
		if !known {
			t.Errorf("%s: the test does not know which nodes %q means", key, needs)
		}
		values := sheetValues[key]
		for _, w := range word.FindAllStringSubmatch(cells[2], -1) {
			if len(sheetValues[key]) == 0 || key == DevicesAnnotation && !strings.HasSuffix(w[1], "=") {
				values = append(values[:len(values):len(values)], w[1])
			}
		}
		for _, value := range values {
			asked++
			sheetAsk(t, models, kinds, key, value)
		}
	}
	if asked < 14 {
		t.Errorf("%d values of the sheet were asked about: want 14 at least", asked)
	}
}

// sheetAsk asks every kind of node about a pod with the annotation. The kinds in kinds, and nodes
// on which Berth decides, must admit it.
func sheetAsk(t *testing.T, models map[string]*placement.Model, kinds []string, key, value string) {
	pod := podAsking(map[string]string{key: value})
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	if key == DevicesAnnotation || key == FunctionsAnnotation {
		limits["nvidia.com/gpu"] = resource.MustParse("1")
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}}}
	ask, err := ReadPod(pod)
	if err != nil || ask.RulesErr != nil {
		t.Errorf("%s=%s cannot be read: %v %v", key, value, err, ask.RulesErr)
		return
	}
	keeps := map[string]bool{"berth": true, "berth by koordlet": key != MemoryAnnotation}
	for _, kind := range kinds {
		keeps[kind] = key != DevicesAnnotation || strings.HasPrefix(value, "perNUMANode=")
	}
	for kind, m := range models {
		if why := Unmet(m, &ask.Request); (why == "") != keeps[kind] {
			t.Errorf("%s=%s on a node %q: %q; by the sheet it keeps it: %t", key, value, kind, why, keeps[kind])
		}
	}
}
