// Package tenant is a hostile user with the ClusterRole edit in a namespace of a test cluster:
// test/hostile/README.md describes its actions.
package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
)

// Namespace is the tenant's namespace, and User its user name.
const (
	Namespace = "hostile-tenant"
	User      = "tenant"
)

// Options are the options of a tenant.
type Options struct {
	// Config has the tenant's credentials.
	Config *rest.Config
	// Nodes are the names of existing nodes, Lanes the number of names of each kind that the
	// friendly load uses: gang0, job0, u0 and so on.
	Nodes []string
	Lanes int
	// Others is a namespace that is not the tenant's.
	Others string
	// Hands is the number of concurrent requests, PerSecond their rate.
	Hands, PerSecond int
	// Pods returns the tenant's pods.
	Pods func() []*corev1.Pod
}

// Tenant does harm. It is safe for concurrent use.
type Tenant struct {
	Options
	words
	clients kubernetes.Interface
	objects dynamic.Interface
	limit   flowcontrol.RateLimiter

	mu     sync.Mutex
	counts Counts
	serial int
	// reserved are names and UIDs of Reservations, as the tenant last saw them.
	reserved [][2]string
}

// Counts are the tenant's attempts and their results.
type Counts struct {
	// Attempts counts all requests, Accepted the requests that the API server accepted.
	Attempts, Accepted int
	// Kinds are the attempts by kind of harm, Refused the refusals by reason.
	Kinds   map[string]int
	Refused map[metav1.StatusReason]int
}

const (
	// manyContainers is the largest number of containers in a pod. A pod with a node's name has at
	// most fewContainers, because a kubelet starts them.
	manyContainers, fewContainers = 4000, 30
	// sizeLimit is near the API server's limit for an object, in bytes.
	sizeLimit = 1400 << 10
)

// UnitLabel of a pod names its unit, for observers; the tenant also writes it.
const UnitLabel = "hostile.test/unit"

// Jobs is the resource of Volcano's Jobs.
var Jobs = wire.JobVersion.WithResource("jobs")

// act is an action with which a tenant tries to harm others.
type act struct {
	kind string
	// weight is how often the act is chosen, relative to the others.
	weight int
	do     func(*hand)
	// words means that the act only sets annotations and labels, and can harm only if Berth reads
	// them.
	words bool
}

var acts = []act{
	{"annotations", 26, (*hand).annotate, true},
	{"labels", 8, (*hand).label, true},
	{"words", 12, (*hand).speak, true},
	{"node", 8, (*hand).goTo, false},
	{"containers", 1, (*hand).crowd, false},
	{"shapes", 8, (*hand).shape, false},
	{"gangs", 8, (*hand).gang, true},
	{"dear", 1, (*hand).dear, true},
	{"again", 6, (*hand).again, true},
	{"claims", 8, (*hand).claim, true},
	{"images", 4, (*hand).disguise, false},
	{"mirrors", 4, (*hand).mirror, false},
	{"withhold", 6, (*hand).withhold, false},
	{"podgroups", 5, (*hand).podGroup, false},
	{"jobs", 2, (*hand).job, false},
	{"reservations", 2, (*hand).reserve, false},
	{"size", 1, (*hand).fill, false},
	{"trespass", 3, (*hand).trespass, false},
	{"controllers", 1, (*hand).control, false},
	{"deletions", 18, (*hand).remove, true},
}

// hand is one of the tenant's concurrent workers during one act.
type hand struct {
	*Tenant
	ctx  context.Context
	r    *rand.Rand
	kind string
	// harmless means that the hand sets keys that no program reads, and that its actions are not
	// counted.
	harmless bool
}

// New returns a tenant that has done nothing yet.
func New(o Options) (*Tenant, error) {
	t := &Tenant{Options: o, words: newWords(), limit: flowcontrol.NewTokenBucketRateLimiter(float32(o.PerSecond), o.PerSecond),
		counts: Counts{Kinds: map[string]int{}, Refused: map[metav1.StatusReason]int{}}}
	for _, a := range acts {
		t.counts.Kinds[a.kind] = 0
	}
	var err error
	if t.clients, err = kubernetes.NewForConfig(o.Config); err != nil {
		return nil, err
	}
	t.objects, err = dynamic.NewForConfig(o.Config)
	return t, err
}

// Harm does harm until ctx ends. The seed determines the acts, not their timing.
func (t *Tenant) Harm(ctx context.Context, seed uint64) {
	t.work(ctx, seed, false)
}

// Toil sends as many requests per second as Harm until ctx ends, but does no harm. It chooses among
// the acts with words, and sets keys that no program reads. Counts does not count its requests.
func (t *Tenant) Toil(ctx context.Context, seed uint64) {
	t.work(ctx, seed, true)
}

func (t *Tenant) work(ctx context.Context, seed uint64, harmless bool) {
	of, total := acts, 0
	if harmless {
		of = slices.DeleteFunc(slices.Clone(acts), func(a act) bool { return !a.words })
	}
	for _, a := range of {
		total += a.weight
	}
	var hands sync.WaitGroup
	for n := range t.Hands {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		hands.Go(func() {
			for ctx.Err() == nil {
				a := choose(of, r.IntN(total))
				a.do(&hand{t, ctx, r, a.kind, harmless})
			}
		})
	}
	hands.Wait()
}

// choose returns an act for a number below the sum of all weights.
func choose(of []act, number int) act {
	for _, a := range of {
		if number -= a.weight; number < 0 {
			return a
		}
	}
	panic("the number is not below the sum of all weights")
}

// Counts returns the attempts so far.
func (t *Tenant) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Kinds, c.Refused = maps.Clone(c.Kinds), maps.Clone(c.Refused)
	return c
}

// try sends a request, and counts it and its answer.
func (h *hand) try(send func(context.Context) error) bool {
	if h.limit.Wait(h.ctx) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(h.ctx, 30*time.Second)
	defer cancel()
	err := send(ctx)
	if h.ctx.Err() != nil {
		return false
	}
	if h.harmless {
		return err == nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.Attempts++
	h.counts.Kinds[h.kind]++
	if err == nil {
		h.counts.Accepted++
		return true
	}
	reason := apierrors.ReasonForError(err)
	if reason == metav1.StatusReasonForbidden && strings.Contains(err.Error(), "exceeded quota") {
		reason = "QuotaExceeded"
	}
	h.counts.Refused[reason]++
	return false
}

// next returns a new number.
func (h *hand) next() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serial++
	return h.serial
}

// pod returns a pod within the quota: Guaranteed with whole CPUs, or with a fraction of one.
func (h *hand) pod() *corev1.Pod {
	cpu, memory := "1", "32Mi"
	if h.r.IntN(3) > 0 {
		cpu = []string{"5m", "20m", "100m"}[h.r.IntN(3)]
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: fmt.Sprint("foe-", h.next()), Labels: map[string]string{}, Annotations: map[string]string{}}}
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}}
	return p
}

// keys returns the keys that the hand writes. A harmless hand puts each value under an unread key.
func (h *hand) keys(values map[string]string) map[string]string {
	if !h.harmless {
		return values
	}
	out := map[string]string{}
	for key, value := range values {
		out["unread-"+key] = value
	}
	return out
}

func (h *hand) create(p *corev1.Pod) bool {
	p.Annotations, p.Labels = h.keys(p.Annotations), h.keys(p.Labels)
	return h.try(func(ctx context.Context) error {
		_, err := h.clients.CoreV1().Pods(Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

func (h *hand) delete(name string) bool {
	return h.try(func(ctx context.Context) error {
		return h.clients.CoreV1().Pods(Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: []*int64{nil, new(int64)}[h.r.IntN(2)]})
	})
}

// any returns a pod of the tenant; nil if there is none.
func (h *hand) any() *corev1.Pod {
	if all := h.Pods(); len(all) > 0 {
		return all[h.r.IntN(len(all))]
	}
	return nil
}

// patch changes annotations or labels of one of the tenant's pods.
func (h *hand) patch(field string, values map[string]string) {
	pod := h.any()
	if pod == nil {
		h.create(h.pod())
		return
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{field: h.keys(values)}})
	if err != nil {
		return
	}
	h.try(func(ctx context.Context) error {
		_, err := h.clients.CoreV1().Pods(Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
}

// name returns a name in the friendly namespace. uid returns a UID in that namespace, or an
// invented one.
func (h *hand) name() string {
	return []string{"gang", "job", "u"}[h.r.IntN(3)] + fmt.Sprint(h.r.IntN(h.Lanes))
}

func (h *hand) uid() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.reserved); n > 0 && h.r.IntN(2) == 0 {
		return h.reserved[h.r.IntN(n)][1]
	}
	return fmt.Sprintf("%s-%d", Namespace, h.r.Uint64())
}

func (h *hand) key(of []string) string { return of[h.r.IntN(len(of))] }

// annotate writes an annotation that Berth reads.
func (h *hand) annotate() {
	key := h.key(h.annotations)
	h.patch("annotations", map[string]string{key: h.value(h.r, key, h.name(), h.uid(), false)})
}

func (h *hand) label() {
	key := h.key(h.labels)
	h.patch("labels", map[string]string{key: h.value(h.r, key, h.name(), h.uid(), true)})
}

// speak creates a pod with one to three annotations or labels that Berth reads.
func (h *hand) speak() {
	p := h.pod()
	for range 1 + h.r.IntN(3) {
		key := h.key(h.annotations)
		p.Annotations[key] = h.value(h.r, key, h.name(), h.uid(), false)
	}
	if h.r.IntN(3) == 0 {
		key := h.key(h.labels)
		p.Labels[key] = h.value(h.r, key, h.name(), h.uid(), true)
	}
	h.create(p)
}

// node returns the name of an existing or invented node.
func (h *hand) node() string {
	if n := h.r.IntN(len(h.Nodes) + 1); n < len(h.Nodes) {
		return h.Nodes[n]
	}
	return fmt.Sprint(Namespace, "-", h.r.IntN(1e6))
}

// goTo creates a pod with a node's name.
func (h *hand) goTo() {
	p := h.pod()
	p.Spec.NodeName = h.node()
	for range h.r.IntN(fewContainers) {
		c := *p.Spec.Containers[0].DeepCopy()
		c.Name = fmt.Sprint("c", len(p.Spec.Containers))
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("5m")
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	h.create(p)
}

// crowd creates a pod of up to 4,000 containers, and deletes it soon.
func (h *hand) crowd() {
	p := h.pod()
	p.Spec.Containers = nil
	list := &p.Spec.Containers
	if h.r.IntN(2) == 0 {
		p.Spec.Containers, list = h.pod().Spec.Containers, &p.Spec.InitContainers
	}
	for i := range []int{257, 1000, manyContainers}[h.r.IntN(3)] {
		*list = append(*list, corev1.Container{Name: fmt.Sprint("c", i), Image: "app:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}}})
	}
	if h.create(p) {
		h.delete(p.Name)
	}
}

// shape creates a pod that differs from all others by a byte of memory and fits nowhere.
func (h *hand) shape() {
	p := h.pod()
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = *resource.NewQuantity(1, resource.DecimalSI)
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = *resource.NewQuantity(16<<20+int64(h.next()), resource.BinarySI)
	if h.r.IntN(2) == 0 {
		p.Spec.Containers[0].Resources.Limits["example.com/nobody-has-it"] = resource.MustParse("1")
	}
	h.create(p)
}

// gang creates a pod of a gang with the name of a friendly gang.
func (h *hand) gang() {
	p := h.pod()
	switch name := h.name(); h.r.IntN(3) {
	case 0:
		p.Annotations[wire.GangAnnotation], p.Annotations[wire.GangMinimumAnnotation] = name, fmt.Sprint(1+h.r.IntN(4))
	case 1:
		p.Annotations[volcano.GroupNameAnnotation] = name
	case 2:
		p.Labels[sigs.PodGroupLabel] = name
	}
	h.create(p)
}

// dear creates a large gang that is as expensive to plan as possible, and never fits: one member
// fits nowhere.
func (h *hand) dear() {
	name, form := fmt.Sprint("dear", h.r.IntN(4)), h.r.IntN(3)
	for i := range dearMembers {
		p := h.pod()
		p.Name = fmt.Sprintf("%s-%d", name, i)
		p.Annotations[wire.GangAnnotation], p.Annotations[wire.GangMinimumAnnotation] = name, fmt.Sprint(dearMembers)
		switch form {
		case 0:
			p.Annotations[wire.OtherNUMAAnnotation] = fmt.Sprintf("*,%s-%d", name, (i+1)%dearMembers)
		case 1:
			p.Labels["own"] = fmt.Sprint(i)
		case 2:
			more := *resource.NewQuantity(64<<20+int64(i)<<12, resource.BinarySI)
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: more}
			p.Spec.Containers[0].Resources.Limits = nil
		}
		if i == 0 {
			p.Spec.NodeSelector = map[string]string{"no": "node"}
		}
		h.create(p)
	}
}

// dearMembers is the size of a gang that dear creates. The quota counts its pods.
const dearMembers = 60

// again creates the members of a gang, deletes them at once, and creates them again with the same
// names.
func (h *hand) again() {
	name := fmt.Sprint("again", h.r.IntN(4))
	for round := range 2 {
		for i := range 2 {
			p := h.pod()
			p.Name = fmt.Sprint(name, "-", i)
			p.Annotations[wire.GangAnnotation], p.Annotations[wire.GangMinimumAnnotation] = name, "2"
			h.create(p)
		}
		for i := range 2 {
			if round == 0 || h.r.IntN(2) == 0 {
				h.delete(fmt.Sprint(name, "-", i))
			}
		}
	}
}

// claim makes a pod claim Reservations, one after the other.
func (h *hand) claim() {
	if h.r.IntN(10) == 0 {
		h.spy()
		return
	}
	if h.r.IntN(3) == 0 {
		h.patch("labels", map[string]string{UnitLabel: h.name(), "owns": h.name()})
		return
	}
	key := []string{wire.AllocatedAnnotation, wire.ReservationAffinityAnnotation}[h.r.IntN(2)]
	h.patch("annotations", map[string]string{key: about(right[key][0], h.name(), h.uid()), "padding": strings.Repeat("x", h.r.IntN(100<<10))})
}

// spy lists the existing Reservations.
func (h *hand) spy() {
	h.try(func(ctx context.Context) error {
		list, err := h.objects.Resource(koordinator.Reservations).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reserved = nil
		for i := range list.Items {
			h.reserved = append(h.reserved, [2]string{list.Items[i].GetName(), string(list.Items[i].GetUID())})
		}
		return nil
	})
}

// famous are programs that set the CPUs of containers or assign devices.
var famous = []string{"koordlet", "dracpu", "dra-driver-cpu", "nri-resource-policy-balloons", "nri-resource-policy-topology-aware", "berth-agent", "koord-device-plugin"}

// disguise creates a pod whose image has the name of a well-known program.
func (h *hand) disguise() {
	p := h.pod()
	p.Spec.Containers[0].Image = "evil.example/" + h.key(famous) + []string{"", ":v1", "@sha256:" + strings.Repeat("0", 64)}[h.r.IntN(3)]
	if h.r.IntN(2) == 0 {
		p.Spec.NodeName = h.node()
	}
	if h.r.IntN(2) == 0 {
		p.Annotations[wire.KoordinatorStatusAnnotation] = `{"cpuset":"1-4"}`
	}
	h.create(p)
}

// mirror creates a pod on a node that claims to mirror one of the tenant's own pods, or none.
func (h *hand) mirror() {
	p, of := h.pod(), h.uid()
	p.Spec.NodeName = h.node()
	if pod := h.any(); pod != nil {
		of = string(pod.UID)
		if pod.Spec.NodeName != "" {
			p.Spec.NodeName = pod.Spec.NodeName
		}
	}
	p.Annotations[corev1.MirrorPodAnnotationKey] = of
	h.create(p)
}

// withhold creates a pod that requests one CPU and asks to keep other CPUs idle.
func (h *hand) withhold() {
	p := h.pod()
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1")
	switch h.r.IntN(3) {
	case 0:
		p.Annotations[wire.ExclusiveAnnotation] = h.key(right[wire.ExclusiveAnnotation])
	case 1:
		p.Labels["koordinator.sh/qosClass"] = "LSE"
		p.Annotations["scheduling.koordinator.sh/resource-spec"] = h.key(right["scheduling.koordinator.sh/resource-spec"])
	case 2:
		p.Labels["koordinator.sh/qosClass"] = "LSR"
		p.Annotations["scheduling.koordinator.sh/numa-topology-spec"] = right["scheduling.koordinator.sh/numa-topology-spec"][0]
	}
	h.create(p)
}

// podGroup creates, changes or deletes a PodGroup with the name of a friendly one.
func (h *hand) podGroup() {
	where := volcano.PodGroups
	if h.r.IntN(2) == 0 {
		where = sigs.PodGroups
	}
	client, name := h.objects.Resource(where).Namespace(Namespace), h.name()
	minimum := []any{int64(1), int64(2), int64(1 << 30), int64(-1), "two", 1.5}[h.r.IntN(6)]
	// Few clusters have the second amount. The first may be free, so that the group is admitted.
	cpus := []int{h.r.IntN(140), h.r.IntN(1e6)}[h.r.IntN(2)]
	spec := map[string]any{"minMember": minimum, "scheduleTimeoutSeconds": int64(h.r.IntN(3)), "minResources": map[string]any{"cpu": fmt.Sprint(cpus)}}
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return
	}
	h.try(func(ctx context.Context) error {
		switch h.r.IntN(3) {
		case 0:
			_, err = client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": where.GroupVersion().String(), "kind": "PodGroup",
				"metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{})
		case 1:
			_, err = client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		case 2:
			err = client.Delete(ctx, name, metav1.DeleteOptions{})
		}
		return err
	})
}

// job creates or deletes a Job with the name of a friendly Job.
func (h *hand) job() {
	client, name := h.objects.Resource(Jobs).Namespace(Namespace), fmt.Sprint("job", h.r.IntN(h.Lanes))
	if h.r.IntN(3) == 0 {
		background := metav1.DeletePropagationBackground
		h.try(func(ctx context.Context) error {
			return client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
		})
		return
	}
	replicas := []int64{1, 2, 50, 10001, 2147483647, -1}[h.r.IntN(6)]
	task := map[string]any{"name": "one", "replicas": replicas, "template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		wire.ExclusiveAnnotation: "numa"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "app:1",
		"resources": map[string]any{"limits": map[string]any{"cpu": "1", "memory": "16Mi"}}}}}}}
	h.try(func(ctx context.Context) error {
		_, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": Jobs.GroupVersion().String(), "kind": "Job",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"minAvailable": int64(h.r.IntN(4)), "tasks": []any{task}}}}, metav1.CreateOptions{})
		return err
	})
}

// reserve tries to create, change or delete a Reservation, which has no namespace.
func (h *hand) reserve() {
	client, name := h.objects.Resource(koordinator.Reservations), h.name()
	h.mu.Lock()
	if n := len(h.reserved); n > 0 {
		name = h.reserved[h.r.IntN(n)][0]
	}
	h.mu.Unlock()
	h.try(func(ctx context.Context) (err error) {
		switch h.r.IntN(3) {
		case 0:
			_, err = client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": koordinator.GroupVersion.String(), "kind": "Reservation",
				"metadata": map[string]any{"name": name}, "spec": map[string]any{}}}, metav1.CreateOptions{})
		case 1:
			_, err = client.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"ttl":"1s"}}`), metav1.PatchOptions{})
		case 2:
			err = client.Delete(ctx, name, metav1.DeleteOptions{})
		}
		return err
	})
}

// fill creates an object of the largest size, and deletes it soon.
func (h *hand) fill() {
	p := h.pod()
	for sum := 0; sum < sizeLimit; sum += 100 << 10 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("V", sum), Value: strings.Repeat("x", 100<<10)})
	}
	if h.r.IntN(2) == 0 {
		p.Spec.NodeName = h.node()
	}
	if h.create(p) {
		h.delete(p.Name)
	}
}

// trespass tries what the role does not allow.
func (h *hand) trespass() {
	node, none := h.key(h.Nodes), []byte(`{"metadata":{"annotations":{"x":"y"}}}`)
	h.try(func(ctx context.Context) (err error) {
		switch h.r.IntN(6) {
		case 0:
			_, err = h.objects.Resource(v1alpha1.NodeTopologies).Patch(ctx, node, types.MergePatchType, []byte(`{"status":{"conditions":[]}}`), metav1.PatchOptions{}, "status")
		case 1:
			err = h.clients.CoreV1().Pods(h.Others).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		case 2:
			err = h.clients.CoreV1().Pods(Namespace).Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "foe-1", Annotations: map[string]string{wire.PlacementAnnotation: "{}"}},
				Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
		case 3:
			_, err = h.clients.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, none, metav1.PatchOptions{})
		case 4:
			_, err = h.clients.CoordinationV1().Leases("kube-system").Patch(ctx, "kube-scheduler", types.MergePatchType, none, metav1.PatchOptions{})
		case 5:
			_, err = h.clients.CoreV1().Pods(Namespace).Patch(ctx, fmt.Sprint("foe-", h.r.IntN(100)), types.MergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"berth.dev/gang-whole","status":"True"}]}}`), metav1.PatchOptions{}, "status")
		}
		return err
	})
}

// control creates or deletes a Deployment of harmful pods.
func (h *hand) control() {
	name := fmt.Sprint("army", h.r.IntN(3))
	client := h.clients.AppsV1().Deployments(Namespace)
	if h.r.IntN(2) == 0 {
		h.try(func(ctx context.Context) error { return client.Delete(ctx, name, metav1.DeleteOptions{}) })
		return
	}
	p, replicas := h.pod(), int32(20)
	p.Labels["army"] = name
	key := h.key(h.annotations)
	p.Annotations[key] = h.value(h.r, key, h.name(), h.uid(), false)
	p.Spec.TerminationGracePeriodSeconds = nil
	h.try(func(ctx context.Context) error {
		_, err := client.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"army": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec}}}, metav1.CreateOptions{})
		return err
	})
}

// remove deletes a pod, so that the quota has room for the next.
func (h *hand) remove() {
	if pod := h.any(); pod != nil {
		h.delete(pod.Name)
		return
	}
	h.create(h.pod())
}
