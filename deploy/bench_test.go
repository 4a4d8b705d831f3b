package deploy

import (
	"io/fs"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
)

// BenchmarkPolicies measures what the API server's evaluation of the policies adds to the creation
// of a pod, and to the update of a Deployment.
func BenchmarkPolicies(b *testing.B) {
	plain := plainPod()
	pinned := plain.DeepCopy()
	pinned.Annotations["berth.dev/policy"] = "single-numa-node"
	volcano := plain.DeepCopy()
	volcano.Annotations["scheduling.k8s.io/group-name"] = "g"
	pod, deployment := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for _, c := range []struct {
		name string
		a    admission.Attributes
	}{
		{"pod/ordinary", written(b, pod, plain, nil)},
		{"pod/pinned", written(b, pod, pinned, nil)},
		{"pod/volcano", written(b, pod, volcano, nil)},
		{"deployment/ordinary", written(b, deployment, plain, plain)},
		{"deployment/pinned", written(b, deployment, pinned, pinned)},
	} {
		for _, file := range []string{"ignored-annotations.yaml", "template-wishes.yaml", "placement-wishes.yaml", "placement-by-binding.yaml"} {
			data, err := fs.ReadFile(Folder("policies"), file)
			if err != nil {
				b.Fatal(err)
			}
			p := compile(b, data)
			b.Run(c.name+"/"+file, func(b *testing.B) {
				matches, validations := p.condition(b, p.matches()), p.condition(b, p.validations())
				b.ReportAllocs()
				for b.Loop() {
					if evaluated(b, matches, c.a) {
						evaluated(b, validations, c.a)
					}
				}
			})
		}
	}
}

// evaluated reports whether all expressions are true for the request.
func evaluated(b *testing.B, e cel.ConditionEvaluator, a admission.Attributes) bool {
	versioned := &admission.VersionedAttributes{Attributes: a, VersionedKind: a.GetKind(),
		VersionedObject: admission.NewLazyObject(a.GetObject()), VersionedOldObject: admission.NewLazyObject(a.GetOldObject())}
	request := cel.CreateAdmissionRequest(a, metav1.GroupVersionResource(a.GetResource()), metav1.GroupVersionKind(a.GetKind()))
	results, _, err := e.ForInput(b.Context(), versioned, request, cel.OptionalVariableBindings{}, nil, apiservercel.RuntimeCELCostBudget)
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range results {
		if r.Error != nil {
			b.Fatal(r.Error)
		}
		if r.EvalResult.Value() != true {
			return false
		}
	}
	return true
}

// plainPod returns a Guaranteed pod of a ReplicaSet, without a key of Berth or a dialect.
func plainPod() *corev1.Pod {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-5d8f-abcde", Labels: map[string]string{"app": "web", "pod-template-hash": "5d8f"},
			Annotations: map[string]string{"prometheus.io/scrape": "true"}},
		Spec: corev1.PodSpec{SchedulerName: "berth", Containers: []corev1.Container{{Name: "c", Image: "web:1",
			Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}}},
	}
}
