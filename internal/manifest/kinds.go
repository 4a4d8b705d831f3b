package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	volcano "github.com/berth-dev/berth/api/batch/v1alpha1"
	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
)

// kindName identifies a kind of object by group and kind, because several groups may have a kind of
// the same name.
type kindName struct{ group, kind string }

// kind describes how to read objects of a kind that has pods.
type kind struct {
	// apiVersion is the only supported version; "" means any version of the group.
	apiVersion string
	read       func(*objectReader) ([]part, error)
}

// part is a set of identical pods of an object.
type part struct {
	// at is the path of the pod in the object ("spec.template."). The field counted is the field
	// with the number of pods.
	at, counted string
	pod         *corev1.Pod
	count       *int32 // nil if the object does not have the field
}

var kinds = map[kindName]kind{
	{"", "Pod"}: {"v1", readPod},
	{"", "ReplicationController"}: {"v1", workload(func(o *corev1.ReplicationController) (*template, *int32) {
		return cmp.Or(o.Spec.Template, &template{}), o.Spec.Replicas
	})},
	{"apps", "Deployment"}:  {"apps/v1", workload(func(o *appsv1.Deployment) (*template, *int32) { return &o.Spec.Template, o.Spec.Replicas })},
	{"apps", "StatefulSet"}: {"apps/v1", readStatefulSet},
	{"apps", "DaemonSet"}:   {"apps/v1", workload(func(o *appsv1.DaemonSet) (*template, *int32) { return &o.Spec.Template, nil })},
	{"apps", "ReplicaSet"}:  {"apps/v1", workload(func(o *appsv1.ReplicaSet) (*template, *int32) { return &o.Spec.Template, o.Spec.Replicas })},
	{"batch", "Job"}:        {"batch/v1", workload(func(o *batchv1.Job) (*template, *int32) { return &o.Spec.Template, atOnce(&o.Spec) })},
	{"batch", "CronJob"}:    {"batch/v1", readCronJob},

	{volcano.GroupVersion.Group, "Job"}: {volcano.GroupVersion.String(), readVolcanoJob},

	// Custom resources whose pod templates are at known paths.
	{"apps.kruise.io", "CloneSet"}:    custom(place{}),
	{"apps.kruise.io", "StatefulSet"}: custom(place{}),
	{"apps.kruise.io", "DaemonSet"}:   custom(place{counts: []string{"-"}}),
	{"argoproj.io", "Rollout"}:        custom(place{}),
	{"jobset.x-k8s.io", "JobSet"}:     custom(place{each: "spec.replicatedJobs", template: "template.spec.template", counts: []string{"replicas", "template.spec.parallelism"}}),
	{"kubeflow.org", "PyTorchJob"}:    custom(place{each: "spec.pytorchReplicaSpecs"}),
	{"kubeflow.org", "TFJob"}:         custom(place{each: "spec.tfReplicaSpecs"}),
	{"kubeflow.org", "MPIJob"}:        custom(place{each: "spec.mpiReplicaSpecs"}),
	{"kubeflow.org", "XGBoostJob"}:    custom(place{each: "spec.xgbReplicaSpecs"}),
	{"kubeflow.org", "PaddleJob"}:     custom(place{each: "spec.paddleReplicaSpecs"}),
	{"kubeflow.org", "JAXJob"}:        custom(place{each: "spec.jaxReplicaSpecs"}),
}

type template = corev1.PodTemplateSpec

type objectReader struct {
	head *head
	doc  []byte
	r    *reader
}

// The method into reads the object into v, as the API server does for a creation. An unknown field
// is an error. If the object comes from an API server, which may be newer, an unknown field causes
// only a note.
func (o *objectReader) into(v any) error {
	if o.head.UID == "" {
		return strict.Unmarshal(o.head.object(), o.doc, v)
	}
	unknown, err := strict.Known(o.head.object(), o.doc, v)
	if err == nil && unknown != nil {
		o.r.unknown = append(o.r.unknown, unknown...)
	}
	return err
}

// podOf returns a pod with the given template and name, in the object's namespace.
func (o *objectReader) podOf(t *template, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	pod.Name, pod.Namespace = name, o.head.Namespace
	return pod
}

// readPod reads a pod. If the pod mirrors a static pod, it gets the static pod's UID, with which
// the kubelet's checkpoints name it.
func readPod(o *objectReader) ([]part, error) {
	pod := new(corev1.Pod)
	err := o.into(pod)
	if static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static != "" && o.head.UID != "" {
		pod.UID = types.UID(static)
		o.head.UID = pod.UID
	}
	return []part{{pod: pod}}, err
}

const templateAt = "spec.template."

// workload reads objects with one pod template. parts returns the template and the number of
// replicas, which is nil if the object does not have it.
func workload[T any, O interface {
	*T
	metav1.Object
}](parts func(O) (*template, *int32)) func(*objectReader) ([]part, error) {
	return func(r *objectReader) ([]part, error) {
		o := O(new(T))
		err := r.into(o)
		t, count := parts(o)
		return []part{{at: templateAt, pod: r.podOf(t, r.head.base()), count: count}}, err
	}
}

func readCronJob(r *objectReader) ([]part, error) {
	o := new(batchv1.CronJob)
	err := r.into(o)
	job := &o.Spec.JobTemplate.Spec
	return []part{{at: "spec.jobTemplate.spec.template.", pod: r.podOf(&job.Template, r.head.base()), count: atOnce(job)}}, err
}

// firstPod is the end of the name of the only pod, for controllers that number even one pod.
// Template.Pods numbers several pods.
const firstPod = "-0"

// readStatefulSet gives the pod a volume for each claim template, as the controller does.
func readStatefulSet(r *objectReader) ([]part, error) {
	o := new(appsv1.StatefulSet)
	if err := r.into(o); err != nil {
		return nil, err
	}
	pod := r.podOf(&o.Spec.Template, r.head.base())
	if n := o.Spec.Replicas; n == nil || *n == 1 {
		pod.Name += firstPod
	}
	for i := range o.Spec.VolumeClaimTemplates {
		addClaim(pod, o.Spec.VolumeClaimTemplates[i].Name, o.Name)
	}
	return []part{{at: templateAt, pod: pod, count: o.Spec.Replicas}}, nil
}

// addClaim gives the pod a volume of the given name, for a claim that the owner's controller
// creates.
func addClaim(pod *corev1.Pod, name, owner string) {
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + owner},
	}})
}

// readVolcanoJob reads the pods of each task. It does not read their gang, because no caller needs
// the Job's PodGroup.
func readVolcanoJob(r *objectReader) (out []part, err error) {
	o := new(volcano.Job)
	if err := r.into(o); err != nil {
		return nil, err
	}
	if err := volcanoShape(r.head.object(), o); err != nil {
		return nil, err
	}
	ignored := func(field string) {
		r.r.ignored = append(r.r.ignored, r.head.object()+": "+field+": Berth does not look at the network")
	}
	if o.Spec.NetworkTopology != nil {
		ignored("spec.networkTopology")
	}
	for i := range o.Spec.Tasks {
		t, at := &o.Spec.Tasks[i], fmt.Sprintf("spec.tasks[%d].", i)
		pod := r.podOf(&t.Template, r.head.base()+"-"+taskName(o, i))
		if t.Replicas == 1 {
			pod.Name += firstPod
		}
		if t.TopologyPolicy != "" {
			pod.Annotations = maps.Clone(pod.Annotations)
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[wire.VolcanoPolicyAnnotation] = string(t.TopologyPolicy)
		}
		if t.PartitionPolicy != nil {
			ignored(at + "partitionPolicy")
		}
		pod.Spec.SchedulerName = cmp.Or(pod.Spec.SchedulerName, o.Spec.SchedulerName)
		out = append(out, part{at: at + "template.", counted: at + "replicas", pod: pod, count: &t.Replicas})
	}
	return out, nil
}

// taskName returns the name of the i-th task. Volcano's webhook gives it to a task without a name.
func taskName(o *volcano.Job, i int) string {
	return cmp.Or(o.Spec.Tasks[i].Name, fmt.Sprint("default", i))
}

// volcanoShape checks the names and numbers of a Job that Volcano's webhook and Berth's admission
// policies check.
func volcanoShape(object string, o *volcano.Job) error {
	if len(o.Spec.Tasks) == 0 {
		return &wire.FieldError{Object: object, Field: "spec.tasks", Want: "at least one task"}
	}
	var errs []error
	upTo := func(field string, got int32, replicas int64, of string) {
		if got < 0 || int64(got) > replicas {
			errs = append(errs, &wire.FieldError{Object: object, Field: field, Value: fmt.Sprint(got), Want: fmt.Sprintf("0 to %d, %s", replicas, of)})
		}
	}
	seen, replicas := map[string]bool{}, int64(0)
	for i := range o.Spec.Tasks {
		t, at := &o.Spec.Tasks[i], fmt.Sprintf("spec.tasks[%d].", i)
		name := taskName(o, i)
		if seen[name] {
			errs = append(errs, &wire.FieldError{Object: object, Field: at + "name", Value: name, Want: "a name that no other task has"})
		}
		seen[name] = true
		if t.MinAvailable != nil && t.Replicas >= 0 {
			upTo(at+"minAvailable", *t.MinAvailable, int64(t.Replicas), "the task's replicas")
		}
		replicas += max(0, int64(t.Replicas))
	}
	upTo("spec.minAvailable", o.Spec.MinAvailable, replicas, "the number of pods of all tasks")
	return errors.Join(errs...)
}

// place describes where a custom resource has its pod templates, and the number of pods of each
// template.
type place struct {
	// each is the path of a list or map of elements with a template; "" means the object's spec.
	each string
	// template is the path of the template in an element; "" means template.
	template string
	// counts are the paths of the numbers whose product is the number of pods. nil means the path
	// replicas. "-" means that no field has the number.
	counts []string
}

func custom(p place) kind {
	p.each, p.template = cmp.Or(p.each, "spec"), cmp.Or(p.template, "template")
	if p.counts == nil {
		p.counts = []string{"replicas"}
	}
	return kind{read: p.read}
}

func (p place) read(r *objectReader) (out []part, err error) {
	var object map[string]any
	if err := yaml.Unmarshal(r.doc, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", r.head.object(), err)
	}
	if below(object, "spec."+otherWorkload) != nil && below(object, "spec.template") == nil {
		r.r.ignored = append(r.r.ignored, r.head.object()+": spec."+otherWorkload+": the workload that it names counts, with its own replicas")
		return nil, nil
	}
	out, err = p.parts(r, object)
	for i := range out {
		for _, name := range claimsIn(object) {
			if pod := out[i].pod; pod != nil && mounts(pod, name) {
				addClaim(pod, name, r.head.Name)
			}
		}
	}
	return out, err
}

// otherWorkload is the field of a Rollout's spec that names a workload, whose template the Rollout
// then uses.
const otherWorkload = "workloadRef"

// claimsIn returns the names of the claims that the controller of a custom resource creates, and to
// which it adds volumes: those of Kruise's volumeClaimTemplates and of JobSet's
// volumeClaimPolicies. Some container must mount each of them.
func claimsIn(object any) (names []string) {
	add := func(templates any) {
		list, _ := templates.([]any)
		for _, one := range list {
			if name, ok := below(one, "metadata.name").(string); ok {
				names = append(names, name)
			}
		}
	}
	add(below(object, "spec.volumeClaimTemplates"))
	policies, _ := below(object, "spec.volumeClaimPolicies").([]any)
	for _, policy := range policies {
		add(below(policy, "templates"))
	}
	return names
}

// mounts reports whether a container of the pod mounts the volume.
func mounts(pod *corev1.Pod, volume string) bool {
	for _, c := range wire.Containers(pod) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) {
			return true
		}
	}
	return false
}

func (p place) parts(r *objectReader, object map[string]any) (out []part, err error) {
	switch each := below(object, p.each).(type) {
	case []any:
		for i, item := range each {
			name, ok := below(item, "name").(string)
			if !ok {
				name = strconv.Itoa(i)
			}
			out = append(out, part{at: fmt.Sprintf("%s[%d].", p.each, i)})
			err = cmp.Or(err, p.fill(&out[i], r, "-"+name, item))
		}
	case map[string]any:
		if p.each == "spec" {
			out = []part{{at: "spec."}}
			return out, p.fill(&out[0], r, "", each)
		}
		for i, name := range slices.Sorted(maps.Keys(each)) {
			out = append(out, part{at: fmt.Sprintf("%s[%s].", p.each, name)})
			err = cmp.Or(err, p.fill(&out[i], r, "-"+strings.ToLower(name), each[name]))
		}
	}
	if len(out) == 0 {
		err = cmp.Or[error](misspelt(r, "", object, p.each), &wire.FieldError{Object: r.head.object(), Field: p.each, Want: "pod templates"})
	}
	return out, err
}

// misspelt returns an error if a field of the path is missing, but a field with a similar name
// exists. The argument at is the path of the value.
func misspelt(r *objectReader, at string, value any, path string) error {
	for field := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		if _, ok := object[field]; !ok && field != "-" {
			for _, key := range slices.Sorted(maps.Keys(object)) {
				if near := suggest.DidYouMean(key, []string{field}); near != "" {
					return &wire.FieldError{Object: r.head.object(), Field: at + key, Value: strict.Text(object[key]), Want: "a known field" + near}
				}
			}
			return nil
		}
		at, value = at+field+".", object[field]
	}
	return nil
}

// fill reads the pods of one element with a template.
func (p place) fill(one *part, r *objectReader, suffix string, value any) error {
	at := one.at
	one.at, one.counted = at+p.template+".", at+p.counts[0]
	for _, path := range append([]string{p.template}, p.counts...) {
		if err := misspelt(r, at, value, path); err != nil {
			return err
		}
	}
	data, err := json.Marshal(below(value, p.template))
	if err != nil {
		return fmt.Errorf("%s: %w", r.head.object(), err)
	}
	var t template
	inner := objectReader{&head{TypeMeta: metav1.TypeMeta{Kind: r.head.object() + ": " + at + p.template}}, data, r.r}
	inner.head.UID = r.head.UID
	if err := inner.into(&t); err != nil {
		return err
	}
	one.pod = r.podOf(&t, r.head.base()+suffix)
	if p.counts[0] == "-" {
		return nil
	}
	product := int64(1)
	for _, field := range p.counts {
		switch n := below(value, field).(type) {
		case nil: // one pod
		case float64:
			if n != math.Trunc(n) || n < 0 || n > MaxPods {
				return &wire.FieldError{Object: r.head.object(), Field: at + field, Value: fmt.Sprint(n), Want: fmt.Sprintf("a whole number from 0 to %d", MaxPods)}
			}
			product = min(product*int64(n), MaxPods+1)
		default:
			return &wire.FieldError{Object: r.head.object(), Field: at + field, Value: fmt.Sprint(n), Want: fmt.Sprintf("a whole number from 0 to %d", MaxPods)}
		}
	}
	count := int32(product)
	one.count = &count
	return nil
}

// The function below returns the value at a path of fields, or nil.
func below(value any, path string) any {
	for field := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[field]
	}
	return value
}

// atOnce returns the number of pods of a Job that run at the same time.
func atOnce(s *batchv1.JobSpec) *int32 {
	if s.Parallelism == nil {
		return nil // the API server then sets parallelism to 1
	}
	count := *s.Parallelism
	if s.Completions != nil {
		count = min(count, *s.Completions)
	}
	return &count
}
