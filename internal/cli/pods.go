package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxPodsFile bounds what a file of pods may hold, in bytes.
const maxPodsFile = 64 << 20

// readPods reads the pods of a YAML or JSON file with any number of documents; "-" is stdin. A workload (Deployment,
// StatefulSet, DaemonSet, ReplicaSet, Job, CronJob) counts as one pod of its template. Unknown fields are errors.
func readPods(path string, stdin io.Reader) ([]*corev1.Pod, error) {
	data, err := readInput(path, stdin, maxPodsFile)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", path, n, err)
		}
		more, err := podsOf(doc)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", path, n, err)
		}
		pods = append(pods, more...)
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("%s: no pods in it", path)
	}
	nameAll(pods)
	return pods, nil
}

func readInput(path string, stdin io.Reader, limit int64) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: larger than %d MiB", path, limit>>20)
	}
	return data, err
}

// podsOf returns the pods of one document; an empty document has none.
func podsOf(doc []byte) ([]*corev1.Pod, error) {
	var meta metav1.TypeMeta
	if len(bytes.TrimSpace(doc)) == 0 {
		return nil, nil
	}
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return nil, err
	}
	switch meta.Kind {
	case "":
		if onlyComments(doc) {
			return nil, nil
		}
		return nil, errors.New(`kind: "": want Pod, a workload with a pod template, or List`)
	case "List":
		return podsOfList(doc)
	case "Pod":
		pod := new(corev1.Pod)
		return []*corev1.Pod{pod}, unmarshalStrict(doc, pod)
	}
	return podOfTemplate(meta.Kind, doc)
}

func podsOfList(doc []byte) ([]*corev1.Pod, error) {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta `json:"metadata"`
		Items           []rawItem       `json:"items"`
	}
	if err := unmarshalStrict(doc, &list); err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for i, item := range list.Items {
		more, err := podsOf(item)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		pods = append(pods, more...)
	}
	return pods, nil
}

// unmarshalStrict reads YAML or JSON as the API server's strict field validation does: unknown and duplicate fields are
// errors that name the field's path.
func unmarshalStrict(doc []byte, into any) error {
	data, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	return errors.Join(append([]error{err}, strict...)...)
}

// rawItem keeps an item's text for a second, typed reading.
type rawItem []byte

func (r *rawItem) UnmarshalJSON(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}

func podOfTemplate(kind string, doc []byte) ([]*corev1.Pod, error) {
	read := func(obj metav1.Object, template *corev1.PodTemplateSpec) ([]*corev1.Pod, error) {
		if err := unmarshalStrict(doc, obj); err != nil {
			return nil, err
		}
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace = obj.GetName(), obj.GetNamespace()
		return []*corev1.Pod{pod}, nil
	}
	switch kind {
	case "Deployment":
		o := new(appsv1.Deployment)
		return read(o, &o.Spec.Template)
	case "StatefulSet":
		o := new(appsv1.StatefulSet)
		return read(o, &o.Spec.Template)
	case "DaemonSet":
		o := new(appsv1.DaemonSet)
		return read(o, &o.Spec.Template)
	case "ReplicaSet":
		o := new(appsv1.ReplicaSet)
		return read(o, &o.Spec.Template)
	case "Job":
		o := new(batchv1.Job)
		return read(o, &o.Spec.Template)
	case "CronJob":
		o := new(batchv1.CronJob)
		return read(o, &o.Spec.JobTemplate.Spec.Template)
	}
	return nil, fmt.Errorf("kind: %q: want Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob or List", kind)
}

func onlyComments(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if l := bytes.TrimSpace(line); len(l) > 0 && l[0] != '#' && !bytes.Equal(l, []byte("---")) {
			return false
		}
	}
	return true
}

// nameAll gives every pod a name and a UID of its own: the engine keys what is handed out by UID.
func nameAll(pods []*corev1.Pod) {
	seen := map[string]int{}
	for i, p := range pods {
		if p.Name == "" {
			p.Name = p.GenerateName
		}
		if p.Name == "" {
			p.Name = fmt.Sprintf("pod-%d", i+1)
		}
		uid := string(p.UID)
		if uid == "" {
			uid = p.Namespace + "/" + p.Name
		}
		seen[uid]++
		if n := seen[uid]; n > 1 {
			uid = fmt.Sprintf("%s#%d", uid, n)
		}
		p.UID = types.UID(uid)
	}
}
