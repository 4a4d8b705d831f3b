package query

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExplainGangFindsDevices: members share the devices near their CPUs. The answer of a node
// without enough devices takes those of the other members into account.
func TestExplainGangFindsDevices(t *testing.T) {
	near0, near1, far0 := gpu("a", "big", 0), gpu("b", "small", 0), gpu("c", "big", 1)
	shared := func() *resourcev1.ResourceClaim {
		c := claim("c0", "any")
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "other", UID: "other"}}
		return c
	}
	for name, c := range map[string]struct {
		mode     string
		devices  []resourcev1.Device
		first    func() *resourcev1.ResourceClaim // of the first member; nil: a claim for any device
		extended bool
		verdict  string
		lacking  string // the node's answer
	}{
		"a device on each NUMA node":    {"required", []resourcev1.Device{near0, far0}, nil, false, "all fit now", ""},
		"two on one":                    {"required", []resourcev1.Device{near0, near1}, nil, false, "1 of 2 pods fit now", "\"berth.dev/claims: required\": claim my-c1: no device on NUMA node 1, where the pod's CPUs would be, matches the claim's requests"},
		"two on one, near":              {"near", []resourcev1.Device{near0, near1}, nil, false, "all fit now", ""},
		"one, near":                     {"near", []resourcev1.Device{near0}, nil, false, "1 of 2 pods fit now", "\"berth.dev/claims: near\": claim my-c1: no device on NUMA node 1, where the pod's CPUs would be, matches the claim's requests"},
		"one, and nothing is asked":     {"", []resourcev1.Device{near0}, nil, false, "1 of 2 pods fit now", "claim my-c1: every device that matches the claim's requests is taken"},
		"extended resources":            {"required", []resourcev1.Device{near0, far0}, nil, true, "all fit now", ""},
		"extended resources, one":       {"", []resourcev1.Device{near0}, nil, true, "1 of 2 pods fit now", "claim for extended resources: every device that matches the claim's requests is taken"},
		"it has a device elsewhere":     {"required", []resourcev1.Device{near0, far0}, func() *resourcev1.ResourceClaim { return has(claim("c0", "any"), "c") }, false, "1 of 2 pods fit now", "device gpu.example.com/c is on NUMA node 1"},
		"a claim that others share":     {"required", []resourcev1.Device{near0, far0}, shared, false, "pod train-0: \"berth.dev/claims: required\": claim default/c0 is shared with pod other: want a claim for each pod", ""},
		"and nothing is asked of it":    {"", []resourcev1.Device{near0, far0}, shared, false, "all fit now", ""},
		"a class that there is not":     {"required", []resourcev1.Device{near0, far0}, func() *resourcev1.ResourceClaim { return claim("c0", "lost") }, false, "1 of 2 pods fit now", "deviceClassName lost: want a DeviceClass that exists"},
		"a wrong word in an annotation": {"far", []resourcev1.Device{near0, far0}, nil, false, `"far": want near or required`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimWorld(t, c.devices...)
			for i := range 2 {
				of := claim(fmt.Sprint("c", i), "any")
				if i == 0 && c.first != nil {
					of = c.first()
				}
				p := w.asks(c.mode, of)
				if c.extended {
					p = w.extends(w.asks(c.mode), "1")
				}
				member := w.Member("train", i, 2, 3)
				for key, value := range p.Annotations {
					member.Annotations[key] = value
				}
				member.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour + time.Duration(i)*time.Second))
				member.Spec.ResourceClaims = p.Spec.ResourceClaims
				to, from := &member.Spec.Containers[0].Resources, &p.Spec.Containers[0].Resources
				if to.Claims = from.Claims; c.extended {
					to.Limits[extendedGPU] = from.Limits[extendedGPU]
				}
			}
			cluster := w.cluster()
			cluster.Namespace = "default"
			e, err := explainGang(t.Context(), cluster, "", "train")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(e.Verdict, c.verdict) || e.Whole != (c.verdict == "all fit now") {
				t.Errorf("%q, whole %t, want %q", e.Verdict, e.Whole, c.verdict)
			}
			said := ""
			if e.Lacking != nil {
				said = e.Lacking.Nodes[0].Message
				if e.Lacking.Nodes[0].Answer != Refuses {
					t.Errorf("the node answers %s", e.Lacking.Nodes[0].Answer)
				}
			}
			if !strings.Contains(said, c.lacking) || (said == "") != (c.lacking == "") {
				t.Errorf("the node says %q, want %q", said, c.lacking)
			}
		})
	}
}
