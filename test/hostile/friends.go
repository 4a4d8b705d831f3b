package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/tenant"
	"github.com/berth-dev/berth/test/trial"
)

const (
	// lanes is the number of concurrent units of the friendly load. With at most laneCPUs each,
	// they fit on the nodes together with the tenant's whole quota.
	lanes    = 6
	laneCPUs = 6
	// patience is how long a unit may take to be placed.
	patience = 60 * time.Second
	look     = 10 * time.Millisecond
)

// friendly is the load that the tenant must not affect. Each lane creates a pod, a gang, a
// Reservation with its owner or a Job, waits until it is placed, lets it run, and deletes it. Gangs
// and Jobs reuse their names.
type friendly struct {
	*cluster
	*watcher
	// clients have the rights of an administrator and their own user agent.
	clients kubernetes.Interface
	mu      sync.Mutex
	took    map[string][]time.Duration // placement times of this phase, by kind
	slow    []waited                   // slow units of this phase, with the reason
}

// waited is a unit that took long to be placed.
type waited struct {
	took time.Duration
	what string // kind, name, and the scheduler's message while the unit waited
}

// long is the time after which a waiting unit is explained, slowShown how many explanations are
// printed.
const (
	long      = time.Second
	slowShown = 12
)

// phase begins a new phase, and returns the placement times of the last one.
func (f *friendly) phase() (took map[string][]time.Duration, slowest []waited) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took, slowest = f.took, f.slow
	f.took, f.slow = nil, nil
	slices.SortFunc(slowest, func(a, b waited) int { return cmp.Compare(b.took, a.took) })
	return took, slowest[:min(len(slowest), slowShown)]
}

// placed returns the number of units that were placed in this phase.
func (f *friendly) placed() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, took := range f.took {
		n += len(took)
	}
	return n
}

// lane works until ctx ends, and then deletes its objects.
func (f *friendly) lane(ctx context.Context, n int, r *rand.Rand) error {
	for i := 0; ctx.Err() == nil; i++ {
		u := &unit{friendly: f, name: fmt.Sprintf("u%d-%d", n, i), lane: n, r: r}
		do := []func(context.Context) error{u.single, u.single, u.gang, u.gang, u.hold, u.job}[r.IntN(6)]
		whole := context.WithoutCancel(ctx) // a unit that has begun is finished
		err := do(whole)
		if errors.Is(err, errStuck) {
			err = nil // it was already printed
		}
		u.leave(u.name)
		if err := errors.Join(err, u.away(whole)); err != nil {
			return fmt.Errorf("unit %s: %w", u.name, err)
		}
	}
	return nil
}

// unit is a part of the friendly load that is placed together.
type unit struct {
	*friendly
	name  string
	lane  int
	r     *rand.Rand
	takes []func(ctx context.Context) error
	made  []types.UID // pods
}

// errStuck means that a unit cannot be placed; the reason was already printed.
var errStuck = errors.New("stuck")

// pod returns a pod of the unit with exclusive CPUs.
func (u *unit) pod(name string, cpus int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: friends, Name: name, Labels: map[string]string{tenant.UnitLabel: u.name}, Annotations: map[string]string{}}}
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	*p.Spec.TerminationGracePeriodSeconds = 1
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(64*mib, resource.BinarySI),
	}}}}
	return p
}

// create creates a pod after its predecessor with the same name is gone. The unit later deletes
// only this pod, and no other pod with the same name.
func (u *unit) create(ctx context.Context, p *corev1.Pod) error {
	pods := u.clients.CoreV1().Pods(friends)
	return u.put(ctx, "pod "+p.Name, func() error {
		made, err := pods.Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		u.made = append(u.made, made.UID)
		u.takes = append(u.takes, func(ctx context.Context) error {
			return pods.Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(made.UID))})
		})
		return nil
	})
}

// make creates an object of a kind, in the friendly namespace unless the kind has no namespaces.
func (u *unit) make(ctx context.Context, where schema.GroupVersionResource, namespace string, object *unstructured.Unstructured) error {
	client := u.Objects.Resource(where).Namespace(namespace)
	return u.put(ctx, where.Resource+" "+object.GetName(), func() error {
		made, err := client.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		u.takes = append(u.takes, func(ctx context.Context) error {
			background := metav1.DeletePropagationBackground
			return client.Delete(ctx, made.GetName(), metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(made.GetUID()))})
		})
		return nil
	})
}

// put repeats a creation until its predecessor with the same name, which may still be terminating,
// is gone.
func (u *unit) put(ctx context.Context, what string, create func() error) error {
	is, err := until(ctx, func() (bool, error) {
		err := create()
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return err == nil, err
	})
	if !is && err == nil {
		u.stuck("%s cannot be made: another of its name is still there after %v", what, patience)
		return errStuck
	}
	return err
}

// single creates one pod.
func (u *unit) single(ctx context.Context) error {
	begun := time.Now()
	if err := u.create(ctx, u.pod(u.name, 1+u.r.Int64N(4))); err != nil {
		return err
	}
	return u.settle(ctx, "pod", begun, 1)
}

// gang creates two or three pods that start together, under a name that the lane reuses.
func (u *unit) gang(ctx context.Context) error {
	name, members := fmt.Sprint("gang", u.lane), 2+u.r.IntN(2)
	source := []schema.GroupVersionResource{{}, sigs.PodGroups, volcano.PodGroups}[u.r.IntN(3)]
	begun := time.Now()
	if source.Resource != "" {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": source.GroupVersion().String(), "kind": "PodGroup",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"minMember": int64(members)}}}
		if err := u.make(ctx, source, friends, object); err != nil {
			return err
		}
	}
	pods := u.members(name, members, source)
	if u.r.IntN(3) == 0 {
		if err := u.hesitate(ctx, pods); err != nil {
			return err
		}
		begun = time.Now()
	}
	for _, p := range pods {
		if err := u.create(ctx, p); err != nil {
			return err
		}
	}
	return u.settle(ctx, "gang", begun, members)
}

// members returns the pods of a gang, declared in the way of its source.
func (u *unit) members(name string, count int, source schema.GroupVersionResource) (pods []*corev1.Pod) {
	for i := range count {
		p := u.pod(fmt.Sprint(name, "-", i), 1+u.r.Int64N(2))
		switch source {
		case sigs.PodGroups:
			p.Labels[sigs.PodGroupLabel] = name
		case volcano.PodGroups:
			p.Annotations[volcano.GroupNameAnnotation] = name
		default:
			p.Annotations[wire.GangAnnotation], p.Annotations[wire.GangMinimumAnnotation] = name, strconv.Itoa(count)
		}
		pods = append(pods, p)
	}
	return pods
}

// hesitate creates the pods and deletes them at once, so that other pods follow with the same
// names.
func (u *unit) hesitate(ctx context.Context, pods []*corev1.Pod) error {
	first := &unit{friendly: u.friendly, name: u.name + "-first", lane: u.lane, r: u.r}
	first.leave(first.name)
	for _, p := range pods {
		p = p.DeepCopy()
		p.Labels[tenant.UnitLabel] = first.name
		if err := first.create(ctx, p); err != nil {
			return err
		}
	}
	return first.away(ctx)
}

// hold creates a Reservation for one pod, and then the pod.
func (u *unit) hold(ctx context.Context) error {
	begun := time.Now()
	p := u.pod(u.name, 1+u.r.Int64N(3))
	if err := u.reserve(ctx, p); err != nil {
		return err
	}
	var held *unstructured.Unstructured
	ready := func() (done bool, err error) {
		if held, err = u.Objects.Resource(koordinator.Reservations).Get(ctx, u.name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		phase, _, _ := unstructured.NestedString(held.Object, "status", "phase")
		return phase == string(koordinator.ReservationAvailable), nil
	}
	if in, err := until(ctx, ready); err != nil || !in {
		u.stuck("Reservation %s is not Available after %v: %v %v", u.name, patience, held.Object["status"], err)
		return nil
	}
	u.note("Reservation", time.Since(begun), "")
	begun = time.Now()
	p.Annotations[wire.ReservationAffinityAnnotation] = fmt.Sprintf(`{"name":%q}`, u.name) // only this Reservation
	if err := u.create(ctx, p); err != nil {
		return err
	}
	return u.settle(ctx, "owner", begun, 1)
}

// reserve creates a Reservation with one owner and a pod as its template.
func (u *unit) reserve(ctx context.Context, p *corev1.Pod) error {
	once, template := true, &corev1.PodTemplateSpec{Spec: *p.Spec.DeepCopy()}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&koordinator.Reservation{
		TypeMeta: metav1.TypeMeta{APIVersion: koordinator.GroupVersion.String(), Kind: "Reservation"}, ObjectMeta: metav1.ObjectMeta{Name: u.name},
		Spec: koordinator.ReservationSpec{Template: template, AllocateOnce: &once,
			Owners: []koordinator.ReservationOwner{{Object: &corev1.ObjectReference{Namespace: friends, Name: u.name}}}},
	})
	if err != nil {
		return err
	}
	return u.make(ctx, koordinator.Reservations, "", &unstructured.Unstructured{Object: object})
}

// job creates a Job of two tasks, under a name that the lane reuses.
func (u *unit) job(ctx context.Context) error {
	task := func(name string, replicas int64) any {
		p := u.pod("x", 1+u.r.Int64N(2))
		template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec})
		if err != nil {
			panic(err) // impossible: it is a literal
		}
		return map[string]any{"name": name, "replicas": replicas, "template": template}
	}
	begun := time.Now()
	err := u.make(ctx, tenant.Jobs, friends, &unstructured.Unstructured{Object: map[string]any{"apiVersion": tenant.Jobs.GroupVersion().String(), "kind": "Job",
		"metadata": map[string]any{"name": fmt.Sprint("job", u.lane)}, "spec": map[string]any{"minAvailable": int64(3), "tasks": []any{task("one", 1), task("two", 2)}}}})
	if err != nil {
		return err
	}
	return u.settle(ctx, "Job", begun, 3)
}

// until calls done until it returns true, at most for the time in which a unit must be placed.
func until(ctx context.Context, done func() (bool, error)) (is bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	trial.Until(ctx, look, func() bool { is, err = done(); return is || err != nil })
	return is, err
}

// settle waits until that many pods of the unit have nodes, records the time, and lets them run. A
// failed pod has already been judged by the watcher.
func (u *unit) settle(ctx context.Context, kind string, begun time.Time, pods int) error {
	var is state
	why := ""
	placed, err := until(ctx, func() (bool, error) {
		is = u.unit(u.name)
		if why == "" && time.Since(begun) > long && is.bound < pods {
			why = u.why(ctx)
		}
		return is.bound >= pods || is.failed, nil
	})
	switch {
	case err != nil || is.failed:
		return err
	case !placed:
		u.stuck("%s %s: %d of %d pods are there and %d have nodes after %v: %s", kind, u.name, is.there, pods, is.bound, patience, u.why(ctx))
		return nil
	}
	if why != "" {
		why = fmt.Sprintf("the last pod came after %v; %s", is.came.Sub(begun).Round(time.Millisecond), why)
	}
	u.note(kind, is.last.Sub(begun), why)
	time.Sleep(time.Duration(500+u.r.IntN(2000)) * time.Millisecond) // the time for which the unit runs
	return nil
}

// why returns the scheduler's message about a waiting pod of the unit.
func (u *unit) why(ctx context.Context) string {
	pods, err := u.Client.CoreV1().Pods(friends).List(ctx, metav1.ListOptions{LabelSelector: tenant.UnitLabel + "=" + u.name})
	for i := 0; err == nil && i < len(pods.Items); i++ {
		if c := wire.Unscheduled(&pods.Items[i]); c.Type != "" {
			return pods.Items[i].Name + ": " + c.Message
		}
	}
	return "nothing is said"
}

func (u *unit) note(kind string, took time.Duration, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.took == nil {
		u.took = map[string][]time.Duration{}
	}
	u.took[kind] = append(u.took[kind], took)
	if why != "" {
		u.slow = append(u.slow, waited{took, kind + " " + u.name + ": " + why})
	}
}

// away deletes the unit's objects, and waits until they are gone.
func (u *unit) away(ctx context.Context) error {
	for _, take := range slices.Backward(u.takes) {
		if err := take(ctx); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	gone, err := until(ctx, func() (bool, error) {
		return u.unit(u.name).there == 0 && u.cameAll(u.made), nil // a pod that was not yet seen is not gone
	})
	if !gone && err == nil {
		u.stuck("the pods of %s do not go", u.name)
	}
	return err
}
