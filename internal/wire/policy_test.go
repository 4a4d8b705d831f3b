package wire

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/made"
	"github.com/berth-dev/berth/topology/shapes"
)

func podWithPolicy(text string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Annotations: map[string]string{PolicyAnnotation: text}}}
}

func TestReadRules(t *testing.T) {
	for _, tc := range []struct {
		text string
		want placement.Rules
		ok   bool
	}{
		{"none", placement.Rules{Policy: placement.PolicyNone}, true},
		{"single-numa-node", placement.Rules{Policy: placement.PolicySingleNUMANode}, true},
		{"restricted,scope=pod", placement.Rules{Policy: placement.PolicyRestricted, Scope: placement.PodScope}, true},
		{"best-effort,scope=container", placement.Rules{Policy: placement.PolicyBestEffort, Scope: placement.ContainerScope}, true},
		{"", placement.Rules{}, false},
		{"None ", placement.Rules{}, false},
		{"restrictd", placement.Rules{}, false},
		{"restricted,", placement.Rules{}, false},
		{"restricted,pod", placement.Rules{}, false},
		{"restricted,scope=", placement.Rules{}, false},
		{"restricted,scope=node", placement.Rules{}, false},
		{"restricted,scope=pod,scope=pod", placement.Rules{}, false},
		{strings.Repeat("x", 256<<10), placement.Rules{}, false},
	} {
		ask, err := ReadPod(podWithPolicy(tc.text))
		if err != nil || (ask.RulesErr == nil) != tc.ok || ask.Request.Rules != tc.want {
			t.Errorf("%.40q: got %+v, error %v", tc.text, ask, err)
		}
		var fe *FieldError
		if !tc.ok && (!errors.As(ask.RulesErr, &fe) || fe.Field != "metadata.annotations[berth.dev/policy]" || len(fe.Error()) > 1000) {
			t.Errorf("%.40q: error %v", tc.text, ask.RulesErr)
		}
		if text := writePolicy(ask.Request.Rules); tc.ok && text != tc.text {
			t.Errorf("%q prints as %q", tc.text, text)
		}
	}
	if ask, err := ReadPod(&corev1.Pod{}); err != nil || ask.RulesErr != nil || ask.Request.Rules != (placement.Rules{}) {
		t.Errorf("without annotation: %+v, error %v", ask, err)
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add("single-numa-node,scope=pod")
	f.Fuzz(func(t *testing.T, text string) {
		if r, want := parsePolicy(text); want == "" && writePolicy(r) != text {
			t.Fatalf("%q prints as %q", text, writePolicy(r))
		}
	})
}

// TestUnmet: if a kubelet decides, its policy must be the pod's or a stricter one. The reason names
// both.
func TestUnmet(t *testing.T) {
	view := made.View(t, shapes.Machine("package:1 numa:2 core:2 pu:1 mem:8Gi dist:10,21"))
	for name, c := range map[string]struct {
		asked         string
		policy, scope string
		want          string
	}{
		"the same":               {"restricted", "restricted", "", ""},
		"stricter node":          {"best-effort", "single-numa-node", "pod", ""},
		"laxer node":             {"single-numa-node", "restricted", "", "the kubelet's policy is restricted with scope container, and the pod's berth.dev/policy asks for single-numa-node"},
		"node with the default":  {"best-effort", "", "", "the kubelet's policy is none with scope container, and the pod's berth.dev/policy asks for best-effort"},
		"none on any node":       {"none", "", "", ""},
		"default scope is asked": {"restricted,scope=container", "restricted", "", ""},
		"another scope":          {"restricted,scope=pod", "restricted", "", "the kubelet's policy is restricted with scope container, and the pod's berth.dev/policy asks for restricted,scope=pod"},
	} {
		m := made.ModelOf(t, view, placement.Config{TopologyManagerPolicy: c.policy, TopologyManagerScope: c.scope})
		ask, err := ReadPod(podWithPolicy(c.asked))
		if err != nil || ask.RulesErr != nil {
			t.Fatal(err, ask.RulesErr)
		}
		if got := Unmet(m, &ask.Request); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got := Unmet(m, &placement.Request{Rules: placement.Rules{}}); got != "" {
			t.Errorf("%s: nothing asked: %q", name, got)
		}
	}
}

// TestAskEqual: everything that a pod requests is compared, but not the pod's name.
func TestAskEqual(t *testing.T) {
	const base = `{metadata: {annotations: {berth.dev/policy: restricted}}, spec: {containers: [
		{name: c, resources: {limits: {cpu: 2, memory: 1Gi, example.com/gpu: 1}}}]}}`
	ask := func(edit ...string) Ask {
		got, err := ReadPod(podOf(t, strings.NewReplacer(edit...).Replace(base)))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a := ask()
	for _, same := range [][]string{{}, {"metadata: {", "metadata: {name: x, labels: {k: v}, "}} {
		b := ask(same...)
		b.Request.UID = "another"
		if !a.Equal(&b) || !b.Equal(&a) || b.Request.UID != "another" {
			t.Errorf("%q: %+v differs from %+v", same, a, b)
		}
	}
	for _, other := range [][]string{{"cpu: 2", "cpu: 3"}, {"1Gi", "2Gi"}, {"gpu: 1", "gpu: 2"}, {"{cpu", "{hugepages-2Mi: 2Mi, cpu"},
		{"policy: restricted", "policy: single-numa-node"}, {"policy: restricted", `policy: "restricted,scope=pod"`},
		{"policy: restricted", "policy: restrictd"}, {"annotations: {berth.dev/policy: restricted}", "labels: {}"}} {
		if b := ask(other...); a.Equal(&b) || b.Equal(&a) {
			t.Errorf("%q: both are %+v", other, a)
		}
	}
}
