package cli

import (
	"strings"
	"testing"
)

func TestReadPods(t *testing.T) {
	const doc = `# a comment
---
kind: Pod
apiVersion: v1
metadata: {name: a}
spec: {containers: [{name: c, resources: {limits: {cpu: "4", memory: 1Gi}}}]}
---
apiVersion: v1
kind: List
items:
- {kind: Deployment, apiVersion: apps/v1, metadata: {name: d}, spec: {template: {spec: {containers: [{name: c}]}}}}
- {kind: CronJob, apiVersion: batch/v1, metadata: {name: d}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}}
---
kind: Pod
metadata: {name: a}
`
	pods, err := readPods("-", strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pods {
		got = append(got, p.Name+"="+string(p.UID))
	}
	if want := "a=/a d=/d d=/d#2 a=/a#2"; strings.Join(got, " ") != want {
		t.Errorf("pods %q, want %q", strings.Join(got, " "), want)
	}
	if cpu := pods[0].Spec.Containers[0].Resources.Limits.Cpu().Value(); cpu != 4 {
		t.Errorf("cpu limit %d, want 4", cpu)
	}
}

func TestReadPodsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ doc, want string }{
		"nothing":       {"", "no pods in it"},
		"no kind":       {"metadata: {name: x}", `kind: ""`},
		"foreign kind":  {"kind: Service", `kind: "Service"`},
		"unknown field": {"kind: Pod\nspec: {container: []}", `unknown field "spec.container"`},
		"bad quantity":  {"kind: Pod\nspec: {containers: [{name: c, resources: {limits: {cpu: lots}}}]}", "quantities must match"},
		"second bad":    {"kind: Pod\n---\nkind: {", "document 2"},
		"item bad":      {"kind: List\nitems: [{kind: Secret}]", "items[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readPods("-", strings.NewReader(c.doc))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func FuzzReadPods(f *testing.F) {
	f.Add("kind: Pod\nmetadata: {name: a}\n---\nkind: List\nitems: [{kind: Job}]")
	f.Fuzz(func(t *testing.T, doc string) {
		pods, err := readPods("-", strings.NewReader(doc))
		if (err == nil) != (len(pods) > 0) {
			t.Errorf("%d pods with error %v", len(pods), err)
		}
	})
}
