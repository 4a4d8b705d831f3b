package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
)

type template = corev1.PodTemplateSpec

// kind is a kind of object that holds pods.
type kind struct {
	apiVersion string
	read       func(object string, doc []byte) (metav1.Object, *template, *int32, error)
}

var kinds = map[string]kind{
	"Pod":         {"v1", readPod},
	"Deployment":  {"apps/v1", workload(func(o *appsv1.Deployment) (*template, *int32) { return &o.Spec.Template, o.Spec.Replicas })},
	"StatefulSet": {"apps/v1", workload(func(o *appsv1.StatefulSet) (*template, *int32) { return &o.Spec.Template, o.Spec.Replicas })},
	"DaemonSet":   {"apps/v1", workload(func(o *appsv1.DaemonSet) (*template, *int32) { return &o.Spec.Template, nil })},
	"ReplicaSet":  {"apps/v1", workload(func(o *appsv1.ReplicaSet) (*template, *int32) { return &o.Spec.Template, o.Spec.Replicas })},
	"Job":         {"batch/v1", workload(func(o *batchv1.Job) (*template, *int32) { return &o.Spec.Template, atOnce(&o.Spec) })},
	"CronJob": {"batch/v1", workload(func(o *batchv1.CronJob) (*template, *int32) {
		return &o.Spec.JobTemplate.Spec.Template, atOnce(&o.Spec.JobTemplate.Spec)
	})},
}

type head struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
	} `json:"metadata"`
}

// object is kind, namespace and name, as errors have it.
func (h *head) object() string {
	name := cmp.Or(h.Metadata.Name, h.Metadata.GenerateName)
	if h.Metadata.Namespace != "" {
		name = h.Metadata.Namespace + "/" + name
	}
	return strings.TrimSpace(h.Kind + " " + name)
}

// document reads one object; listed is the kind of a typed list's items, which need not repeat it.
func (r *reader) document(doc []byte, listed string) error {
	if len(doc) == 0 {
		return nil
	}
	h, err := headOf(doc)
	if err != nil {
		return err
	}
	if h.Kind == "" && listed != "" {
		h.Kind, h.APIVersion = listed, kinds[listed].apiVersion
	}
	k, known := kinds[h.Kind]
	switch {
	case h.Kind == "":
		return &wire.FieldError{Object: "object " + cmp.Or(h.Metadata.Name, "without a name"), Field: "kind",
			Want: "Pod, a workload with a pod template, or List"}
	case strings.HasSuffix(h.Kind, "List"):
		return r.list(doc, h)
	case !known:
		return r.skip(h)
	case h.APIVersion != k.apiVersion:
		return &wire.FieldError{Object: h.object(), Field: "apiVersion", Value: h.APIVersion, Want: k.apiVersion}
	}
	return r.add(h, k, doc)
}

// headOf reads what says which object it is, however wrong the rest is.
func headOf(doc []byte) (*head, error) {
	h := new(head)
	var loose map[string]any
	if err := yaml.Unmarshal(doc, &loose); err != nil {
		return nil, strict.Unmarshal("object", doc, new(map[string]any))
	}
	h.Kind, _ = loose["kind"].(string)
	h.APIVersion, _ = loose["apiVersion"].(string)
	meta, _ := loose["metadata"].(map[string]any)
	h.Metadata.Name, _ = meta["name"].(string)
	h.Metadata.GenerateName, _ = meta["generateName"].(string)
	h.Metadata.Namespace, _ = meta["namespace"].(string)
	return h, nil
}

// skip passes over a kind that holds no pods, unless it looks like a slip of the pen.
func (r *reader) skip(h *head) error {
	names := slices.Sorted(maps.Keys(kinds))
	group, _, _ := strings.Cut(h.APIVersion, "/")
	own := slices.Contains([]string{"", "v1", "apps", "batch"}, group)
	if near := suggest.DidYouMean(h.Kind, names); near != "" && own {
		return &wire.FieldError{Object: h.object(), Field: "kind", Value: h.Kind, Want: strings.Join(names, ", ") + " or List" + near}
	}
	r.skipped[h.Kind]++
	return nil
}

func (r *reader) list(doc []byte, h *head) error {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta   `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := yaml.Unmarshal(doc, &list); err != nil {
		return fmt.Errorf("%s: %w", h.object(), err)
	}
	base := strings.TrimSuffix(h.Kind, "List")
	if _, known := kinds[base]; !known && base != "" {
		r.skipped[h.Kind]++
		return nil
	}
	for i, item := range list.Items {
		if err := r.document(item, base); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return nil
}

// add reads a workload and takes its pods.
func (r *reader) add(h *head, k kind, doc []byte) error {
	obj, template, count, err := k.read(h.object(), doc)
	if err != nil {
		return err
	}
	pod, isPod := obj.(*corev1.Pod)
	at := ""
	if !isPod {
		pod = &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace = obj.GetName(), obj.GetNamespace()
		at = templatePath(h.Kind)
	}
	replicas := 1
	if count != nil {
		replicas = int(*count)
	}
	if replicas < 0 || r.pods+replicas > MaxPods {
		return &wire.FieldError{Object: h.object(), Field: "spec.replicas", Value: fmt.Sprint(replicas),
			Want: fmt.Sprintf("0 to %d pods in all", MaxPods)}
	}
	if err := validate(h.object(), at, pod); err != nil {
		return err
	}
	if replicas != 1 {
		r.counted = append(r.counted, fmt.Sprintf("%s: counted as %d pods", h.object(), replicas))
	}
	r.pods += replicas
	if replicas > 0 {
		r.templates = append(r.templates, Template{pod, replicas})
	}
	return nil
}

func templatePath(kind string) string {
	if kind == "CronJob" {
		return "spec.jobTemplate.spec.template."
	}
	return "spec.template."
}

func readPod(object string, doc []byte) (metav1.Object, *template, *int32, error) {
	o := new(corev1.Pod)
	return o, nil, nil, strict.Unmarshal(object, doc, o)
}

// workload reads objects with a pod template; parts returns it, and how many replicas it has, nil
// where the object does not say.
func workload[T any, O interface {
	*T
	metav1.Object
}](parts func(O) (*template, *int32)) func(string, []byte) (metav1.Object, *template, *int32, error) {
	return func(object string, doc []byte) (metav1.Object, *template, *int32, error) {
		o := O(new(T))
		err := strict.Unmarshal(object, doc, o)
		t, count := parts(o)
		return o, t, count, err
	}
}

// atOnce is how many pods of a Job run at the same time.
func atOnce(s *batchv1.JobSpec) *int32 {
	if s.Parallelism == nil {
		return nil // one, or as many as there are completions, which needs parallelism too
	}
	count := *s.Parallelism
	if s.Completions != nil {
		count = min(count, *s.Completions)
	}
	return &count
}
