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

// resize returns a request to resize a pod with this placement. from and to are the requests of
// "main", and of the sidecar "side".
func resize(placement string, from, to []map[string]any) admission.Attributes {
	pod := func(requests []map[string]any) *unstructured.Unstructured {
		container := func(name string, requests map[string]any) any {
			return map[string]any{"name": name, "resources": map[string]any{"requests": requests, "limits": map[string]any{"memory": "9Gi"}}}
		}
		spec := map[string]any{"containers": []any{container("main", requests[0])}}
		if len(requests) > 1 {
			side := container("side", requests[1])
			side.(map[string]any)["restartPolicy"] = "Always"
			spec["initContainers"] = []any{side}
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

// asks returns the requests of each container.
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

// TestResizesOfPinnedPodsWarn: a kubelet refuses to resize only the resources that its managers
// have pinned.
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
		want      string // "" if there is no warning
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

// TestResizesWhereBerthDecides: a resize passes if the scheduler can decide again. Otherwise it is
// refused, and the message names the reason. On other nodes, the kubelet decides about the resize.
func TestResizesWhereBerthDecides(t *testing.T) {
	const (
		obeying, kubelet = `{"v":1,"authority":"berth","containers":[]}`, `{"v":1,"containers":[]}`
		koordlet         = `{"v":1,"authority":"berth","enforcer":"koordlet","containers":[]}`
	)
	for name, c := range map[string]struct {
		placement string
		from, to  []map[string]any
		edit      func(pod map[string]any)
		want      string // "" if the request passes
	}{
		"more CPUs":                        {obeying, asks("cpu=2 memory=1Gi"), asks("cpu=3 memory=1Gi"), nil, ""},
		"fewer CPUs":                       {obeying, asks("cpu=2 memory=1Gi"), asks("cpu=1 memory=1Gi"), nil, ""},
		"more memory":                      {obeying, asks("cpu=2 memory=1Gi"), asks("cpu=2 memory=2Gi"), nil, ""},
		"memory beside CPU time":           {obeying, asks("cpu=200m memory=1Gi"), asks("cpu=200m memory=2Gi"), nil, ""},
		"a little CPU time":                {obeying, asks("cpu=200m"), asks("cpu=201m"), nil, "requests of main: where Berth decides, the CPUs of a container can be resized only between whole numbers"},
		"from time to CPUs":                {obeying, asks("cpu=500m"), asks("cpu=1"), nil, "requests of main: where Berth decides, the CPUs of a container can be"},
		"from CPUs to time":                {obeying, asks("cpu=2"), asks("cpu=1500m"), nil, "requests of main: where Berth decides, the CPUs of a container can be"},
		"to zero":                          {obeying, asks("cpu=2"), asks("cpu=0"), nil, "requests of main: where Berth decides, the CPUs of a container can be"},
		"a sidecar":                        {obeying, asks("cpu=1", "cpu=1"), asks("cpu=1", "cpu=2"), nil, ""},
		"both":                             {obeying, asks("cpu=1", "cpu=1"), asks("cpu=2", "cpu=2"), nil, ""},
		"a sidecar to a fraction":          {obeying, asks("cpu=1", "cpu=1"), asks("cpu=1", "cpu=1500m"), nil, "requests of side: where Berth decides, the CPUs of a container can be"},
		"an init container":                {obeying, asks("cpu=1", "cpu=1"), asks("cpu=1", "cpu=2"), ends, "requests of side: where Berth decides, init containers keep"},
		"beside an init container":         {obeying, asks("cpu=1", "cpu=1"), asks("cpu=2", "cpu=1"), ends, ""},
		"with the policy RestartContainer": {obeying, asks("cpu=1 memory=1Gi"), asks("cpu=2 memory=2Gi"), restarts, ""},
		"where koordlet carries out":       {koordlet, asks("cpu=1"), asks("cpu=2"), nil, "because koordlet carries its decision out"},
		"nothing, where koordlet does":     {koordlet, asks("cpu=1"), asks("cpu=1000m"), nil, ""},
		"a member of a gang":               {obeying, asks("cpu=1"), asks("cpu=2"), annotate("berth.dev/bound-for", `{"v":1,"uid":"u","gang":"g","source":"berth.dev/gang","whole":true}`), ""},
		"an owner of a Reservation":        {obeying, asks("cpu=1"), asks("cpu=2"), annotate("berth.dev/bound-for", `{"v":1,"uid":"u","gang":"g","reservation":"r"}`), "because it uses a Reservation"},
		"the same, to the same amounts":    {obeying, asks("cpu=1"), asks("cpu=1"), annotate("berth.dev/bound-for", `{"reservation":"r"}`), ""},
		"with Koordinator's words":         {obeying, asks("cpu=1"), asks("cpu=2"), annotate("scheduling.koordinator.sh/resource-status", "{}"), "because scheduling.koordinator.sh/resource-status"},
		"a Burstable pod":                  {obeying, asks("cpu=1"), asks("cpu=2"), class("Burstable"), "because its QoS class is not Guaranteed"},
		"a pod of an unknown class":        {obeying, asks("cpu=1"), asks("cpu=2"), class(""), "because its QoS class is not Guaranteed"},
		"a container of a pod as a whole":  {obeying, asks("cpu=1"), asks("cpu=2"), whole, "because it has spec.resources"},
		"the same":                         {obeying, asks("cpu=1", "cpu=1"), asks("cpu=1", "cpu=1"), nil, ""},
		"the same, spelt otherwise":        {obeying, asks("cpu=1 memory=1Gi"), asks("cpu=1000m memory=1073741824"), nil, ""},
		"where the kubelet decides":        {kubelet, asks("cpu=1"), asks("cpu=1500m"), nil, ""},
		"of another scheduler":             {"", asks("cpu=1"), asks("cpu=2"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := resize(c.placement, c.from, c.to)
			for _, pod := range []map[string]any{a.GetObject().(*unstructured.Unstructured).Object, a.GetOldObject().(*unstructured.Unstructured).Object} {
				pod["status"] = map[string]any{"qosClass": "Guaranteed"}
				if c.edit != nil {
					c.edit(pod)
				}
			}
			got := strings.Join(denied(t, "placed-pods-keep-requests.yaml", a), "\n")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("denied %q, want ...%s...", got, c.want)
			}
		})
	}
}

// TestSpecResourcesStay: if Berth decides, the resources of a whole pod cannot be resized or added.
func TestSpecResourcesStay(t *testing.T) {
	a := resize(`{"v":1,"authority":"berth","containers":[]}`, asks("cpu=1"), asks("cpu=1"))
	whole(a.GetObject().(*unstructured.Unstructured).Object)
	if got := denied(t, "placed-pods-keep-requests.yaml", a); len(got) != 1 || !strings.Contains(got[0], "spec.resources: where Berth decides, a pod keeps") {
		t.Errorf("denied %q", got)
	}
}

func annotate(name, value string) func(map[string]any) {
	return func(pod map[string]any) { _ = unstructured.SetNestedField(pod, value, "metadata", "annotations", name) }
}

// ends replaces the pod's sidecar by a regular init container.
func ends(pod map[string]any) {
	list, _, _ := unstructured.NestedSlice(pod, "spec", "initContainers")
	delete(list[0].(map[string]any), "restartPolicy")
	_ = unstructured.SetNestedSlice(pod, list, "spec", "initContainers")
}

// restarts sets the resizePolicy so that the kubelet restarts resized containers.
func restarts(pod map[string]any) {
	list, _, _ := unstructured.NestedSlice(pod, "spec", "containers")
	list[0].(map[string]any)["resizePolicy"] = []any{map[string]any{"resourceName": "cpu", "restartPolicy": "RestartContainer"}, map[string]any{"resourceName": "memory", "restartPolicy": "RestartContainer"}}
	_ = unstructured.SetNestedSlice(pod, list, "spec", "containers")
}

func class(name string) func(map[string]any) {
	return func(pod map[string]any) { pod["status"] = map[string]any{"qosClass": name} }
}

// whole sets the pod's spec.resources.
func whole(pod map[string]any) {
	_ = unstructured.SetNestedField(pod, map[string]any{"cpu": "4"}, "spec", "resources", "requests")
}
