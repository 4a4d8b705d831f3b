package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/wire"
)

// warnings are the warnings that a client has received.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.texts, "; ")
	w.texts = nil
	return text
}

// silent finds out by dry runs which unserved kinds, and which unread keys on pods of the
// scheduler, the API server accepts without a warning.
func (c *cluster) silent(ctx context.Context) (silent []string, err error) {
	var warned warnings
	config := rest.CopyConfig(c.ControlPlane.RESTConfig())
	config.WarningHandler = &warned
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	words, err := c.silentWords(ctx, client, &warned)
	if err != nil {
		return nil, err
	}
	inTemplates, err := c.silentTemplates(ctx, objects, &warned)
	if words = append(words, inTemplates...); err != nil || c.by != byBerth {
		return words, err
	}
	kinds, err := c.silentKinds(ctx, objects, &warned)
	return append(words, kinds...), err
}

var dry = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// silentWords sets an unread key of each dialect on a pod of each schedulerName.
func (c *cluster) silentWords(ctx context.Context, client kubernetes.Interface, warned *warnings) (silent []string, err error) {
	for _, d := range wire.Dialects() {
		for _, name := range c.names {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "word", Annotations: map[string]string{d.Domains[0] + "/x": "y"}},
				Spec: corev1.PodSpec{SchedulerName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			warned.take()
			if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, dry); err != nil {
				return nil, err
			}
			if text := warned.take(); !strings.Contains(text, d.Domains[0]+"/x") {
				silent = append(silent, fmt.Sprintf("%s: %s/x on a pod of %s: warned %q", c.by, d.Domains[0], name, text))
			}
		}
	}
	return silent, nil
}

// silentTemplates sets an unread key on the template of a workload, and of a task of Volcano's Job.
func (c *cluster) silentTemplates(ctx context.Context, objects dynamic.Interface, warned *warnings) (silent []string, err error) {
	for _, d := range wire.Dialects() {
		for _, name := range c.names {
			template := fmt.Sprintf(`{metadata: {labels: {app: word}, annotations: {%s/x: "y"}}, spec: {schedulerName: %s, containers: [{name: c, image: i}]}}`, d.Domains[0], name)
			kinds := map[schema.GroupVersionResource]string{
				{Group: "apps", Version: "v1", Resource: "replicasets"}: "kind: ReplicaSet\nspec: {selector: {matchLabels: {app: word}}, template: " + template + "}",
			}
			if c.by != byNobody { // a cluster without Jobs does not have the kind
				kinds[schema.GroupVersionResource{Group: "batch.volcano.sh", Version: "v1alpha1", Resource: "jobs"}] =
					"kind: Job\nspec: {schedulerName: " + name + ", minAvailable: 1, tasks: [{name: t, replicas: 1, template: " + template + "}]}"
			}
			for kind, spec := range kinds {
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte("apiVersion: "+kind.GroupVersion().String()+"\nmetadata: {name: word}\n"+spec), &object.Object); err != nil {
					return nil, err
				}
				warned.take()
				if _, err := objects.Resource(kind).Namespace(metav1.NamespaceDefault).Create(ctx, object, dry); err != nil {
					return nil, err
				}
				if text := warned.take(); !strings.Contains(text, d.Domains[0]+"/x") {
					silent = append(silent, fmt.Sprintf("%s: %s/x in a template of %s of %s: warned %q", c.by, d.Domains[0], kind.Resource, name, text))
				}
			}
		}
	}
	return silent, nil
}

// silentKinds creates an object of each kind that Berth does not serve.
func (c *cluster) silentKinds(ctx context.Context, objects dynamic.Interface, warned *warnings) (silent []string, err error) {
	r := &running{cluster: c}
	kinds := wire.UnservedKinds()
	for i := range kinds {
		k := &kinds[i]
		resource := schema.GroupVersionResource{Group: k.Group, Version: "v1", Resource: k.Resource}
		if err := c.ControlPlane.Apply(ctx, definition(k)); err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": k.Kind, "metadata": map[string]any{"name": "x"},
		}}
		warned.take()
		err := r.until(ctx, func(ctx context.Context) error { // until the kind is served
			_, err := objects.Resource(resource).Create(ctx, object, dry)
			return err
		})
		if err != nil {
			return nil, err
		}
		if text := warned.take(); !strings.Contains(text, k.Warning()) {
			silent = append(silent, fmt.Sprintf("%s of %s: warned %q", k.Kind, k.Group, text))
		}
	}
	return silent, nil
}

// definition returns a definition that accepts any content. The warning does not need the original
// definition.
func definition(k *wire.UnservedKind) []byte {
	annotations := ""
	if strings.HasSuffix(k.Group, ".k8s.io") { // the API server requires an approval for such groups
		annotations = `annotations: {api-approved.kubernetes.io: "unapproved, for tests"}`
	}
	return fmt.Appendf(nil, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[2]s.%[1]s
  %[4]s
spec:
  group: %[1]s
  scope: Cluster
  names: {plural: %[2]s, singular: %[5]s, kind: %[3]s, listKind: %[3]sList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, k.Group, k.Resource, k.Kind, annotations, strings.ToLower(k.Kind))
}
