package deploy

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"
)

// ownedBy returns an object with this owner; without an owner if it is nil.
func ownedBy(owner map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"name": "x", "namespace": "kube-system"}
	if owner != nil {
		meta["ownerReferences"] = []any{owner}
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}}
}

// TestControllerWritesForJobs: the controller may write and delete objects that a Job controls, but
// no others, although its role would allow it.
func TestControllerWritesForJobs(t *testing.T) {
	job := map[string]any{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1", "controller": true}
	mine, shared := ownedBy(job), ownedBy(map[string]any{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "1"})
	kubernetes := ownedBy(map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": true})
	free := ownedBy(nil)
	controller := &user.DefaultInfo{Name: "system:serviceaccount:berth-system:berth-controller"}
	for name, c := range map[string]struct {
		by          user.Info
		object, old *unstructured.Unstructured
		want        string // "" if the request passes
	}{
		"makes what a Job controls":              {controller, mine, nil, ""},
		"changes it":                             {controller, mine, mine, ""},
		"deletes it":                             {controller, nil, mine, ""},
		"makes what nobody owns":                 {controller, free, nil, "not configmaps kube-system/x"},
		"makes what a Job owns with others":      {controller, shared, nil, "want such a Job"},
		"makes what Kubernetes' own Job has":     {controller, kubernetes, nil, "want such a Job"},
		"takes what nobody owns for a Job":       {controller, mine, free, "may change and delete"},
		"lets go of what a Job controls":         {controller, free, mine, "want such a Job"},
		"deletes what another controller has":    {controller, nil, kubernetes, "may change and delete"},
		"somebody else makes what nobody owns":   {&user.DefaultInfo{Name: "admin"}, free, nil, ""},
		"somebody else deletes what nobody owns": {&user.DefaultInfo{Name: "admin"}, nil, free, ""},
	} {
		got := strings.Join(deniedIn(t, Folder("jobs"), "controller-writes-for-jobs.yaml", requestOf(c.by, c.object, c.old)), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: denied %q, want ...%s...", name, got, c.want)
		}
	}
}

// TestControllerWritesItsOwnLease: with the controller's token, nobody can take the Lease of the
// scheduler, which is in the same namespace.
func TestControllerWritesItsOwnLease(t *testing.T) {
	text, err := fs.ReadFile(Folder("jobs"), "rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			// Nobody can create a Lease that exists.
			changes := func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch", "create"}, verb) }
			if !slices.Contains(rule.Resources, "leases") || !slices.ContainsFunc(rule.Verbs, changes) {
				continue
			}
			written++
			if !slices.Equal(rule.ResourceNames, []string{"berth-controller"}) {
				t.Errorf("%s %s: %v of leases %q: want only berth-controller", role.Kind, role.Name, rule.Verbs, rule.ResourceNames)
			}
		}
	}
	if written != 1 {
		t.Errorf("%d rules about writes of Leases, want 1", written)
	}
}

// requestOf creates object, updates old to object, or deletes old if object is nil.
func requestOf(by user.Info, object, old *unstructured.Unstructured) admission.Attributes {
	operation, options := admission.Update, runtime.Object(&metav1.UpdateOptions{})
	var o, before runtime.Object
	if object != nil {
		o = object
	} else {
		operation, options = admission.Delete, &metav1.DeleteOptions{}
	}
	if old != nil {
		before = old
	} else {
		operation, options = admission.Create, &metav1.CreateOptions{}
	}
	return admission.NewAttributesRecord(o, before, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "kube-system", "x",
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", operation, options, false, by)
}
