package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/sim"
)

// The number of pods per node of a world, and how many of them the kubelet pins.
const (
	podsPerNode   = 20
	pinnedPerNode = 6
)

// world is a cluster for one scheduler. Nodes, pods, reports and Bindings are objects in memory, so
// that the cost of clients does not hide the cost of a cycle.
type world struct {
	testing.TB
	nodes  []*simNode
	byName map[string]*simNode
	there  []*corev1.Pod
	change func(*corev1.Node)

	client  kubernetes.Interface
	config  *rest.Config
	pods    *watch.FakeWatcher
	reports reports

	mu      sync.Mutex
	bound   map[string]string // nodes of bound pods, by pod
	written chan struct{}     // one for each Binding
	made    int
}

// newWorld makes a world with count nodes. At the beginning all nodes are equal, except for the
// changes of change, which may be nil.
func newWorld(tb testing.TB, count int, change func(*corev1.Node)) *world {
	tb.Helper()
	first := beginning(tb, count)
	w := &world{
		TB: tb, byName: map[string]*simNode{}, there: first.there, made: first.made, bound: map[string]string{}, written: make(chan struct{}, 1<<16), pods: watch.NewFakeWithChanSize(1<<14, false),
	}
	w.reports.list, w.change = first.reports.list, change
	for _, n := range first.nodes {
		own := &simNode{name: n.name, kind: n.kind, kubelet: n.kubelet.Clone(), pods: maps.Clone(n.pods), sequence: n.sequence}
		w.nodes, w.byName[n.name] = append(w.nodes, own), own
	}
	w.serve()
	return w
}

// beginnings has the initial worlds, by number of nodes.
var beginnings = map[int]*world{}

func beginning(tb testing.TB, count int) *world {
	if w := beginnings[count]; w != nil {
		return w
	}
	kinds, err := kindsOfCluster()
	if err != nil {
		tb.Fatal(err)
	}
	w := &world{TB: tb}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range count {
		k := kinds[i%len(kinds)]
		n := &simNode{name: fmt.Sprintf("node-%05d", i), kind: k, kubelet: sim.NewKubelet(k.model), pods: map[types.UID]*simPod{}}
		for j := range podsPerNode {
			load := loadOrdinary
			if j < pinnedPerNode {
				load = loadPinned
			}
			w.settle(n, w.podOf(load, rng.IntN(len(pinnedSizes)), i*podsPerNode+j))
		}
		w.nodes = append(w.nodes, n)
	}
	w.reports.write(w)
	beginnings[count] = w
	return w
}

// podOf returns a pod of a load and a shape. It belongs to a Deployment.
func (w *world) podOf(load string, shape, number int) *corev1.Pod {
	pod := newPod(load, shape)
	own(pod, number)
	w.made++
	pod.Name = fmt.Sprintf("%s-%d", pod.Labels["app"], w.made)
	pod.UID = types.UID(pod.Name)
	pod.CreationTimestamp = metav1.Unix(1_700_000_000+int64(w.made/200), 0)
	pod.ResourceVersion = fmt.Sprint(w.made)
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}
	if load != loadOrdinary {
		pod.Status.QOSClass = corev1.PodQOSGuaranteed
	}
	return pod
}

// settle adds a pod that has run on a node since before the beginning.
func (w *world) settle(n *simNode, pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status.Phase = n.name, corev1.PodRunning
	if _, refused, err := n.admit(pod); err != nil || refused {
		w.Fatalf("pod %s on %s: refused: %t, %v", pod.Name, n.name, refused, err)
	}
	w.there = append(w.there, pod)
}

// serve makes the clients of the world.
func (w *world) serve() {
	w.reports.world, w.reports.version, w.reports.news = w, 1, make(chan struct{})
	server := httptest.NewServer(&w.reports)
	w.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	w.config = &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON, AcceptContentTypes: runtime.ContentTypeJSON}}
	real, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		w.Fatal(err)
	}
	list := &corev1.NodeList{}
	for _, n := range w.nodes {
		object := n.object()
		if w.change != nil {
			w.change(object)
		}
		list.Items = append(list.Items, *object)
	}
	memory := fake.NewClientset()
	lists := map[string]runtime.Object{"nodes": list, "pods": w.podList(), "services": serviceList(), "replicasets": replicaSetList(),
		"persistentvolumes": volumeList(), "persistentvolumeclaims": claimList()}
	for resource, objects := range lists {
		memory.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, objects, nil })
	}
	memory.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if strings.Contains(action.(clienttesting.WatchAction).GetWatchRestrictions().Fields.String(), "status.phase=") {
			return true, watch.NewFake(), nil // for ended members of gangs: there are none
		}
		return true, w.pods, nil
	})
	memory.PrependReactor("create", "pods", w.bind)
	memory.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Pod{}, nil })
	w.client = &clients{memory, real}
}

// clients are in memory, except for Leases, because the code that lists them needs a REST client.
type clients struct {
	*fake.Clientset
	real kubernetes.Interface
}

func (c *clients) CoordinationV1() coordinationclient.CoordinationV1Interface {
	return c.real.CoordinationV1()
}

func (w *world) podList() *corev1.PodList {
	list := &corev1.PodList{Items: make([]corev1.Pod, len(w.there))}
	for i, pod := range w.there {
		list.Items[i] = *pod
	}
	return list
}

func serviceList() *corev1.ServiceList {
	list := &corev1.ServiceList{}
	for i := range apps {
		list.Items = append(list.Items, *service(i))
	}
	return list
}

func replicaSetList() *appsv1.ReplicaSetList {
	list := &appsv1.ReplicaSetList{}
	for i := range apps {
		list.Items = append(list.Items, *replicaSet(i))
		list.Items[i].UID = types.UID(list.Items[i].Name)
	}
	return list
}

// zones is the number of zones. The last digit of a node's name is its zone.
const zones = 10

// volumeList returns a volume for each zone, which only nodes of the zone can use. The claim of the
// zone is bound to it.
func volumeList() *corev1.PersistentVolumeList {
	list := &corev1.PersistentVolumeList{}
	for i := range zones {
		name := fmt.Sprint("zone-", i)
		list.Items = append(list.Items, corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: podNamespace, Name: name, UID: types.UID(name)},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
				}}}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		})
	}
	return list
}

func claimList() *corev1.PersistentVolumeClaimList {
	list := &corev1.PersistentVolumeClaimList{}
	for i := range zones {
		name := fmt.Sprint("zone-", i)
		list.Items = append(list.Items, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: podNamespace, UID: types.UID(name), Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		})
	}
	return list
}

// bind handles a Binding.
func (w *world) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := create.GetObject().(*corev1.Binding)
	w.mu.Lock()
	w.bound[binding.Name] = binding.Target.Name
	w.mu.Unlock()
	w.written <- struct{}{}
	return true, binding, nil
}

// run makes bound pods run on their nodes, and the nodes report.
func (w *world) run(pods []*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	touched := map[*simNode]bool{}
	for _, pod := range pods {
		n := w.byName[w.bound[pod.Name]]
		if n == nil {
			w.Fatalf("pod %s is not bound", pod.Name)
		}
		running := pod.DeepCopy()
		running.Spec.NodeName, running.Status.Phase = n.name, corev1.PodRunning
		w.made++
		running.ResourceVersion = fmt.Sprint(w.made)
		w.pods.Modify(running)
		if _, refused, err := n.admit(running); err != nil || refused {
			w.Logf("pod %s is refused on %s: %v", pod.Name, n.name, err)
		}
		touched[n] = true
	}
	for n := range touched {
		w.reports.tell(n)
	}
}

// end deletes pods that ran.
func (w *world) end(pods []*corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	touched := map[*simNode]bool{}
	for _, pod := range pods {
		n := w.byName[w.bound[pod.Name]]
		delete(w.bound, pod.Name)
		gone := pod.DeepCopy()
		gone.Spec.NodeName = n.name
		w.pods.Delete(gone)
		n.remove(pod.UID)
		touched[n] = true
	}
	for n := range touched {
		w.reports.tell(n)
	}
}

// reports is the API server of NodeTopologies and Leases; it serves nothing else.
type reports struct {
	world *world

	mu      sync.Mutex
	version int
	list    []byte
	told    [][]byte
	news    chan struct{} // closed and replaced when there are new events
}

// write writes the list of all reports.
func (r *reports) write(w *world) {
	r.world, r.version = w, 1
	var all []string
	for _, n := range w.nodes {
		all = append(all, string(r.of(n)))
	}
	r.list = fmt.Appendf(nil, `{"kind":"NodeTopologyList","apiVersion":"berth.dev/v1alpha1","metadata":{"resourceVersion":"1"},"items":[%s]}`, strings.Join(all, ","))
}

// of returns the node's current report.
func (r *reports) of(n *simNode) []byte {
	snap, more := n.snapshot()
	n.sequence++
	nt, err := wire.WriteNodeTopology(&wire.Node{Name: n.name, Spec: n.kind.spec, Report: wire.Report{
		Sequence: n.sequence, Observed: time.Now(), Snapshot: snap, Pods: more, Conditions: []metav1.Condition{readyCondition},
	}})
	if err != nil {
		r.world.Fatal(err)
	}
	nt.UID, nt.ResourceVersion = types.UID("nt-"+n.name), fmt.Sprint(r.version)
	data, err := json.Marshal(nt)
	if err != nil {
		r.world.Fatal(err)
	}
	return data
}

// tell sends a node's report to the watches.
func (r *reports) tell(n *simNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	r.told = append(r.told, fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`+"\n", r.of(n)))
	close(r.news)
	r.news = make(chan struct{})
}

func (r *reports) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	q := in.URL.Query()
	leases := strings.HasSuffix(in.URL.Path, "/leases")
	switch {
	case in.Method == http.MethodPost || in.Method == http.MethodPut:
		_ = json.NewEncoder(out).Encode(body(in))
	case !leases && !strings.HasSuffix(in.URL.Path, "/"+v1alpha1.NodeTopologies.Resource):
		refuse(out, http.StatusNotFound, metav1.StatusReasonNotFound)
	case q.Get("sendInitialEvents") != "": // refused, as by a server without streaming lists
		refuse(out, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case q.Get("watch") != "":
		r.watch(in.Context(), out, leases)
	case leases:
		fmt.Fprint(out, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	default:
		_, _ = out.Write(r.list)
	}
}

func body(in *http.Request) json.RawMessage {
	data, err := io.ReadAll(in.Body)
	if err != nil {
		return nil
	}
	return data
}

func refuse(out http.ResponseWriter, code int, why metav1.StatusReason) {
	out.WriteHeader(code)
	_ = json.NewEncoder(out).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: why, Code: int32(code)})
}

// watch sends events until the client disconnects.
func (r *reports) watch(ctx context.Context, out http.ResponseWriter, leases bool) {
	for at := 0; ; {
		r.mu.Lock()
		lines, news := r.told[at:], r.news
		r.mu.Unlock()
		for _, line := range lines {
			at++
			if !leases {
				_, _ = out.Write(line)
			}
		}
		out.(http.Flusher).Flush()
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}
