package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// resize is a request to resize a pod with this placement: from and to are the requests of each
// container, "main" and then "side", an init container.
func resize(placement string, from, to []map[string]any) admission.Attributes {
	pod := func(requests []map[string]any) *unstructured.Unstructured {
		container := func(name string, requests map[string]any) any {
			return map[string]any{"name": name, "resources": map[string]any{"requests": requests, "limits": map[string]any{"memory": "9Gi"}}}
		}
		spec := map[string]any{"containers": []any{container("main", requests[0])}}
		if len(requests) > 1 {
			spec["initContainers"] = []any{container("side", requests[1])}
		}
		meta := map[string]any{"name": "p", "namespace": "d"}
		if placement != "" {
			meta["annotations"] = map[string]any{"berth.dev/placement": placement}
		}
		return &unstructured.Unstructured{Object: map[string]any{"metadata": meta, "spec": spec}}
	}
	return admission.NewAttributesRecord(pod(to), pod(from), corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "resize", admission.Update, &metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: "u"})
}

// asks are the requests of each container.
func asks(list ...string) (out []map[string]any) {
	for _, text := range list {
		requests := map[string]any{}
		for _, one := range strings.Fields(text) {
			name, amount, _ := strings.Cut(one, "=")
			requests[name] = amount
		}
		out = append(out, requests)
	}
	return out
}

// TestResizesOfPinnedPodsWarn: a kubelet refuses to resize what its managers have pinned, and
// nothing else.
func TestResizesOfPinnedPodsWarn(t *testing.T) {
	const (
		pins    = `{"v":1,"containers":[{"name":"main","hint":{},"cpus":"2-3","memory":[{"numa":"0","resource":"memory","bytes":1}]}]}`
		cpus    = `{"v":1,"containers":[{"name":"main","hint":{},"cpus":"2-3"}]}`
		obeying = `{"v":1,"authority":"berth","containers":[{"name":"main","cpus":"2-3"}]}`
		nothing = `{"v":1,"containers":[{"name":"main","hint":{}}]}`
	)
	for name, c := range map[string]struct {
		placement string
		from, to  []map[string]any
		want      string // "" for no warning
	}{
		"more CPUs":                  {cpus, asks("cpu=2"), asks("cpu=3"), "requests of main: the kubelet has pinned cpu of this pod"},
		"fewer":                      {pins, asks("cpu=2"), asks("cpu=1"), "pinned cpu and memory"},
		"memory":                     {pins, asks("cpu=2 memory=1Gi"), asks("cpu=2 memory=2Gi"), "pinned cpu and memory"},
		"memory that is not pinned":  {cpus, asks("cpu=2 memory=1Gi"), asks("cpu=2 memory=2Gi"), ""},
		"a sidecar":                  {cpus, asks("cpu=2", "cpu=1"), asks("cpu=2", "cpu=2"), "requests of side: "},
		"the same, spelt otherwise":  {pins, asks("cpu=2 memory=1Gi"), asks("cpu=2000m memory=1024Mi"), ""},
		"where Berth decides":        {obeying, asks("cpu=2"), asks("cpu=3"), ""},
		"a pod that shares":          {nothing, asks("cpu=2"), asks("cpu=3"), ""},
		"a pod of another scheduler": {"", asks("cpu=2"), asks("cpu=3"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(denied(t, "resizes-of-pinned-pods.yaml", resize(c.placement, c.from, c.to)), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("warns %q, want ...%s...", got, c.want)
			}
		})
	}
}

// TestPlacedPodsKeepTheirRequests: where Berth decides nobody resizes what the node keeps for a
// pod. Everywhere else, and of everything else, that is the kubelet's to answer.
func TestPlacedPodsKeepTheirRequests(t *testing.T) {
	const obeying, kubelet = `{"v":1,"authority":"berth","containers":[]}`, `{"v":1,"containers":[]}`
	for name, c := range map[string]struct {
		placement string
		from, to  []map[string]any
		want      string // "" for a request that passes
	}{
		"more CPUs":                     {obeying, asks("cpu=2 memory=1Gi"), asks("cpu=3 memory=1Gi"), "requests of main: "},
		"fewer CPUs":                    {obeying, asks("cpu=2 memory=1Gi"), asks("cpu=1 memory=1Gi"), "requests of main: "},
		"a little CPU time":             {obeying, asks("cpu=200m"), asks("cpu=201m"), "requests of main: "},
		"more memory":                   {obeying, asks("cpu=2 memory=1Gi"), asks("cpu=2 memory=2Gi"), "requests of main: "},
		"a request where there is none": {obeying, asks("cpu=2"), asks("cpu=2 memory=1Gi"), "requests of main: "},
		"a sidecar":                     {obeying, asks("cpu=1", "cpu=1"), asks("cpu=1", "cpu=2"), "requests of side: "},
		"both":                          {obeying, asks("cpu=1", "cpu=1"), asks("cpu=2", "cpu=2"), "requests of main, side: "},
		"the same":                      {obeying, asks("cpu=1", "cpu=1"), asks("cpu=1", "cpu=1"), ""},
		"the same, spelt otherwise":     {obeying, asks("cpu=1 memory=1Gi"), asks("cpu=1000m memory=1073741824"), ""},
		"where the kubelet decides":     {kubelet, asks("cpu=1"), asks("cpu=2"), ""},
		"of another scheduler":          {"", asks("cpu=1"), asks("cpu=2"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(denied(t, "placed-pods-keep-requests.yaml", resize(c.placement, c.from, c.to)), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("denied %q, want ...%s...", got, c.want)
			}
		})
	}
}
