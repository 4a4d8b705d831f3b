package deploy

import (
	"cmp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestDecisionsAfterAResize: only the scheduler may replace a decision. The new one must be newer
// and match the kubelet's allocation, and the write may change nothing else.
func TestDecisionsAfterAResize(t *testing.T) {
	const (
		first  = `{"v":1,"seq":1,"uid":"u","certainty":"exact","authority":"berth","containers":[{"name":"main","cpus":"2-3"}]}`
		second = `{"v":1,"seq":1,"uid":"u","gen":2,"asks":"main 4000m 1073741824,side 500m 5","certainty":"exact","authority":"berth","containers":[]}`
		berth  = "system:serviceaccount:berth-system:berth-scheduler"
	)
	with := func(old, new string) string { return strings.Replace(second, old, new, 1) }
	type change struct {
		from, to, by, subresource string
		main                      map[string]any // allocated
		edit                      func(old, new map[string]any)
	}
	for name, c := range map[string]struct {
		change
		refused bool
	}{
		"the scheduler":                  {change{}, false},
		"kube-scheduler":                 {change{by: "system:kube-scheduler"}, false},
		"spelt otherwise":                {change{main: map[string]any{"cpu": "4", "memory": "1024Mi"}}, false},
		"a third decision":               {change{from: second, to: `{"gen":3,"asks":"main 4000m 1073741824,side 500m 6","authority":"berth"}`, edit: side("6")}, false},
		"a tenant":                       {change{by: "tenant"}, true},
		"an agent":                       {change{by: "system:serviceaccount:berth-system:berth-agent"}, true},
		"a node":                         {change{by: "system:node:n"}, true},
		"the pod itself":                 {change{subresource: "-"}, true},
		"the resize subresource":         {change{subresource: "resize"}, true},
		"the same generation":            {change{from: second, to: with("side 500m 5", "side 500m 6"), edit: side("6")}, true},
		"an older generation":            {change{from: with(`"gen":2`, `"gen":9`), to: `{"gen":8,"asks":"main 4000m 1073741824,side 500m 6","authority":"berth"}`, edit: side("6")}, true},
		"no generation":                  {change{to: with(`"gen":2,`, "")}, true},
		"a generation that is no number": {change{to: with(`"gen":2`, `"gen":x`)}, true},
		"the same amounts again":         {change{from: second, to: with(`"gen":2`, `"gen":3`)}, true},
		"more than was allocated":        {change{to: with("main 4000m", "main 5000m")}, true},
		"more memory":                    {change{to: with("1073741824", "1073741825")}, true},
		"nothing allocated":              {change{main: map[string]any{}}, true},
		"no amounts":                     {change{to: with(`"asks":"main 4000m 1073741824,side 500m 5",`, "")}, true},
		"a container is missing":         {change{to: with(",side 500m 5", "")}, true},
		"a container twice":              {change{to: with("side 500m 5", "main 4000m 1073741824")}, true},
		"another container":              {change{to: with("side", "tail")}, true},
		"where the kubelet decides":      {change{from: strings.Replace(first, `"authority":"berth",`, "", 1), to: with(`"authority":"berth",`, "")}, true},
		"where koordlet carries out":     {change{to: with(`"authority":"berth"`, `"authority":"berth","enforcer":"koordlet"`)}, true},
		"no decision before":             {change{from: "-"}, true},
		"the decision is removed":        {change{to: "-"}, true},
		"a pod without a node":           {change{edit: func(old, _ map[string]any) { unstructured.RemoveNestedField(old, "spec", "nodeName") }}, true},
		"a pod that is being deleted": {change{edit: func(old, _ map[string]any) {
			_ = unstructured.SetNestedField(old, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
		}}, true},
		"a sidecar":                    {change{to: with("side 500m 5", "side 500m 5,cache 1000m 7"), edit: sidecar("Always", true)}, false},
		"a sidecar is missing":         {change{edit: sidecar("Always", true)}, true},
		"a sidecar that has not begun": {change{to: with("side 500m 5", "side 500m 5,cache 1000m 7"), edit: sidecar("Always", false)}, true},
		"an init container":            {change{edit: sidecar("", true)}, false},
		"amounts of an init container": {change{to: with("side 500m 5", "side 500m 5,cache 1000m 7"), edit: sidecar("", true)}, true},
		"the status says so only now":  {change{edit: func(old, _ map[string]any) { unstructured.RemoveNestedField(old, "status", "containerStatuses") }}, true},
		"its gang as well": {change{edit: func(_, now map[string]any) {
			_ = unstructured.SetNestedField(now, "x", "metadata", "annotations", "berth.dev/bound-for")
		}}, true},
		"its plugins as well": {change{edit: func(_, now map[string]any) {
			_ = unstructured.SetNestedField(now, "[]", "metadata", "annotations", "tolerate-missing-plugins.noderesource.dev")
		}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.main == nil {
				c.main = map[string]any{"cpu": "4000m", "memory": "1Gi"}
			}
			pod := func(placement string) map[string]any {
				meta := map[string]any{"name": "p", "namespace": "d"}
				if placement != "-" {
					meta["annotations"] = map[string]any{"berth.dev/placement": placement}
				}
				return map[string]any{"metadata": meta, "spec": map[string]any{"nodeName": "n", "containers": []any{map[string]any{"name": "main"}, map[string]any{"name": "side"}}},
					"status": map[string]any{"containerStatuses": []any{
						map[string]any{"name": "main", "allocatedResources": c.main},
						map[string]any{"name": "side", "allocatedResources": map[string]any{"cpu": "0.5", "memory": "5"}},
					}}}
			}
			from, to := pod(cmp.Or(c.from, first)), pod(cmp.Or(c.to, second))
			if c.edit != nil {
				c.edit(from, to)
			}
			a := admission.NewAttributesRecord(&unstructured.Unstructured{Object: to}, &unstructured.Unstructured{Object: from}, corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), strings.TrimPrefix(cmp.Or(c.subresource, "status"), "-"), admission.Update, &metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: cmp.Or(c.by, berth)})
			if got := denied(t, "placement-by-binding.yaml", a); (len(got) > 0) != c.refused {
				t.Errorf("refused: %q, want %v", got, c.refused)
			}
		})
	}
}

// side makes the kubelet allocate this amount of memory to the second container.
func side(memory string) func(old, now map[string]any) {
	return func(old, _ map[string]any) {
		list, _, _ := unstructured.NestedSlice(old, "status", "containerStatuses")
		list[1].(map[string]any)["allocatedResources"] = map[string]any{"cpu": "0.5", "memory": memory}
		_ = unstructured.SetNestedSlice(old, list, "status", "containerStatuses")
	}
}

// sidecar adds an init container with this restartPolicy to the pod, and with a status if told is
// set.
func sidecar(policy string, told bool) func(old, now map[string]any) {
	return func(old, now map[string]any) {
		for _, pod := range []map[string]any{old, now} {
			c := map[string]any{"name": "cache"}
			if policy != "" {
				c["restartPolicy"] = policy
			}
			_ = unstructured.SetNestedSlice(pod, []any{c}, "spec", "initContainers")
			if told {
				_ = unstructured.SetNestedSlice(pod, []any{map[string]any{"name": "cache", "allocatedResources": map[string]any{"cpu": "1", "memory": "7"}}}, "status", "initContainerStatuses")
			}
		}
	}
}
