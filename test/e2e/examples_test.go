package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/examples"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/podgroup"
	"github.com/berth-dev/berth/topology"
)

// podsOfExample is how many pods each example has. A DaemonSet has one pod per node.
var podsOfExample = map[string]int{
	"batch": 4, "daemonset": 4, "gang": 3, "gpu": 1, "gpuseach": 1, "hugepages": 1, "koordinator": 1, "koordinator-gang": 4, "mpi": 3, "numanodes": 1, "pinned": 2,
	"reservation": 0, "serve": 4, "strict": 4, "toolarge": 1, "train": 1, "vcjob": 3,
}

// exampleNodes are two nodes with GPUs, whose kubelets decide, one with two GPUs on each NUMA node,
// and one on which Berth decides.
func exampleNodes() []hollow.Spec {
	spec := func(name string) hollow.Spec {
		s := hollow.Spec{Name: name, Machine: "package:2 numa:1 core:24 pu:2 mem:96Gi,96Gi huge:2Mi=2048,2048", KubeletConfig: ownConfig}
		for resource, each := range map[string]int{"nvidia.com/gpu": 4, "rdma/hca": 1} {
			p := hollow.Plugin{Resource: resource, Prefer: true}
			for i := range 2 * each {
				numa := i / each
				p.Devices = append(p.Devices, hollow.Device{ID: fmt.Sprint(i), NUMA: []topology.NUMAID{topology.NUMAID(numa)}})
			}
			s.Plugins = append(s.Plugins, p)
		}
		return s
	}
	berth := hollow.Spec{Name: "berth", Machine: "package:2 numa:1 core:24 pu:2 mem:96Gi,96Gi", NRI: true,
		KubeletConfig: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nreservedSystemCPUs: \"0\"\n"}
	each := hollow.Spec{Name: "gpus-each", Machine: berth.Machine,
		KubeletConfig: strings.Replace(ownConfig, "single-numa-node", "best-effort", 1), Plugins: []hollow.Plugin{pluginWith(2, 2)}}
	each.Plugins[0].Resource = "nvidia.com/gpu"
	return []hollow.Spec{spec("gpus-a"), spec("gpus-b"), each, berth}
}

// TestExamplesRun applies every example as kubectl does, to an API server with Berth's policies.
// There are no warnings, and all pods run except for the example that must be refused.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	opts := demoOptions(t, 1)
	opts.Own = exampleNodes()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	c, err := demo.StartPlayground(ctx, opts, demo.Berth{Names: demo.SchedulerNames, Jobs: true})
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	atEnd(t, c.Stop)
	if err := c.ControlPlane.Apply(t.Context(), podgroup.Reservations()); err != nil {
		t.Fatal(err)
	}
	var warned warnings
	config := rest.CopyConfig(c.ControlPlane.RESTConfig())
	config.WarningHandler = &warned
	run := exampleRun{c, dynamic.NewForConfigOrDie(config), restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))}
	for _, name := range examples.Names() {
		t.Run(name, func(t *testing.T) {
			warned = nil
			made := run.apply(t, name)
			if len(warned) > 0 {
				t.Errorf("warned: %q", warned)
			}
			eventually(t, "it is as it should be", func() error { return run.check(t.Context(), name) })
			run.clear(t, made)
		})
	}
}

// exampleRun is a cluster that runs examples.
type exampleRun struct {
	*demo.Cluster
	objects dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// made is a created object with its resource.
type made struct {
	client dynamic.ResourceInterface
	name   string
}

// apply creates the objects of an example. An unknown field is an error, as with kubectl.
func (r *exampleRun) apply(t *testing.T, name string) (all []made) {
	t.Helper()
	data, err := examples.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		o := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(text, &o.Object)
		}
		if err != nil {
			t.Fatal(err)
		}
		kind := o.GroupVersionKind()
		var mapping *meta.RESTMapping
		eventually(t, "the kind is served", func() (err error) {
			if mapping, err = r.mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
				r.mapper.Reset()
			}
			return err
		})
		client := dynamic.ResourceInterface(r.objects.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			client = r.objects.Resource(mapping.Resource).Namespace(metav1.NamespaceDefault)
		}
		eventually(t, "it is created", func() error {
			_, err := client.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		})
		all = append(all, made{client, o.GetName()})
	}
}

// check returns an error that names what is missing of an example.
func (r *exampleRun) check(ctx context.Context, name string) error {
	if name == "reservation" {
		object, err := r.objects.Resource(koordinator.Reservations).Get(ctx, "reserved", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); phase != string(koordinator.ReservationAvailable) {
			return fmt.Errorf("phase %q: %v", phase, object.Object["status"])
		}
		return nil
	}
	pods, err := r.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var wrong []string
	for i := range pods.Items {
		if problem := problemOf(&pods.Items[i], name == "toolarge"); problem != "" {
			wrong = append(wrong, pods.Items[i].Name+": "+problem)
		}
	}
	if len(pods.Items) != podsOfExample[name] {
		wrong = append(wrong, fmt.Sprintf("%d pods: want %d", len(pods.Items), podsOfExample[name]))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// problemOf explains why a pod is not in the expected state: running, or unschedulable.
func problemOf(pod *corev1.Pod, refused bool) string {
	if c := wire.Unscheduled(pod); c.Type != "" {
		if refused && strings.Contains(c.Message, "70 CPUs") {
			return ""
		}
		return c.Message
	}
	if pod.Status.Phase != corev1.PodRunning {
		return string(pod.Status.Phase) + " " + pod.Status.Message
	}
	if refused {
		return "it runs"
	}
	return ""
}

// clear deletes an example and waits until its pods are gone.
func (r *exampleRun) clear(t *testing.T, all []made) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	for _, o := range all {
		if err := o.client.Delete(t.Context(), o.name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "its pods are gone", func() error {
		pods, err := r.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods", len(pods.Items))
		}
		return err
	})
}
