package moving

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/berth-dev/berth/internal/wire"
)

// ErrChanged means that the cluster differs from the plan. Completed steps are not reverted.
var ErrChanged = errors.New("the cluster differs from the plan")

// Pod identifies a pod.
type Pod struct {
	Namespace, Name string
	UID             types.UID
}

func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// Move is one step: a pod leaves From, and its replacement goes to To.
type Move struct {
	Pod      Pod
	From, To string
}

// Wanted is a waiting pod and the node that the plan has for it.
type Wanted struct {
	Pod
	Node string
}

// Plan has the moves in the order in which they are carried out, and the wanted pods, which get
// their places after all moves.
type Plan struct {
	// Wanted must have at least one pod.
	Wanted []Wanted
	Moves  []Move
}

// Options configure how a plan is carried out.
type Options struct {
	Pods coreclient.PodsGetter
	// Tell is called with messages about the progress. Each message is one sentence. Tell must not
	// be nil.
	Tell func(format string, args ...any)
	// Limit is the maximum duration of each wait; 0 means DefaultLimit.
	Limit time.Duration
	// Image is the image of holders and guards. It need not exist: a kubelet admits a pod before it
	// pulls the image. "" means DefaultImage.
	Image string
}

const (
	// DefaultLimit is the default of Options.Limit.
	DefaultLimit = 2 * time.Minute
	// DefaultImage is Kubernetes' pause image, which does nothing.
	DefaultImage = "registry.k8s.io/pause:3.10"
	// HolderLife is the time after which the kubelet ends a holder or guard that was not deleted.
	HolderLife = 15 * time.Minute
	// MostGrace is the longest grace period of a pod that may be moved. It is shorter than
	// HolderLife, because the holder and the guards must also exist during the waits before and
	// after, which take up to twice Options.Limit.
	MostGrace = 10 * time.Minute
	// HolderLabel is the label of holders and guards. The value of a holder's label is the UID of
	// the pod whose new place it holds. The value of a guard's label is the UID of the first wanted
	// pod.
	HolderLabel = wire.HolderLabel

	// retryEvery is the interval of checks for changes that no event of a pod reports, such as
	// whether a budget now allows an eviction.
	retryEvery = 2 * time.Second
	// looks is the maximum number of checks per second while pods change all the time.
	looks = 5
)

// Done is the result of Run.
type Done struct {
	// Moved is the number of pods that were evicted and have a new place.
	Moved int
	// Nodes has the node of each wanted pod, in the order of Plan.Wanted; "" for a pod that still
	// waits.
	Nodes []string
}

// Run carries out a plan. If the cluster differs from the plan, the error wraps ErrChanged and
// describes the difference.
func Run(ctx context.Context, plan *Plan, o Options) (Done, error) {
	r := &runner{Options: o, plan: plan, wanted: make([]*corev1.Pod, len(plan.Wanted)), holders: make([]*corev1.Pod, len(plan.Moves)), guards: map[string]*corev1.Pod{}, since: map[types.UID]time.Time{}}
	r.Limit, r.Image = cmp.Or(o.Limit, DefaultLimit), cmp.Or(o.Image, DefaultImage)
	done := Done{Nodes: make([]string, len(plan.Wanted))}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	r.changes = r.watch(watching)
	err := r.run(ctx, &done)
	return done, errors.Join(err, r.dropAll(ctx))
}

type runner struct {
	Options
	plan *Plan
	// wanted are the wanted pods as they were when Run last read them.
	wanted []*corev1.Pod
	// holders has, for each move, the pod that holds the new place, or nil.
	holders []*corev1.Pod
	// guards are the pods that keep other pods off the nodes that are still needed, by node.
	guards map[string]*corev1.Pod
	// since maps the UIDs of holders and guards to the times when they were created.
	since map[types.UID]time.Time
	// changes receives a value after a pod of the plan's namespaces has changed.
	changes <-chan struct{}
}

// watch reports changes of pods in the plan's namespaces until the context ends.
func (r *runner) watch(ctx context.Context) <-chan struct{} {
	namespaces := sets.New[string]()
	for i := range r.plan.Moves {
		namespaces.Insert(r.plan.Moves[i].Pod.Namespace)
	}
	for i := range r.plan.Wanted {
		namespaces.Insert(r.plan.Wanted[i].Namespace)
	}
	changes := make(chan struct{}, 1)
	tell := func() {
		select {
		case changes <- struct{}{}:
		default: // one value is enough
		}
	}
	for namespace := range namespaces {
		go wait.UntilWithContext(ctx, func(ctx context.Context) { // the API server ends a watch from time to time
			pods, err := r.Pods.Pods(namespace).Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, pods.Stop)()
			for range pods.ResultChan() {
				tell()
			}
		}, retryEvery)
	}
	return changes
}

func (r *runner) run(ctx context.Context, done *Done) error {
	for i := range r.plan.Moves {
		if here, err := r.look(ctx, done); err != nil || here {
			return err
		}
		if err := r.holdFree(ctx, i); err != nil {
			return err
		}
		if here, err := r.look(ctx, done); err != nil || here { // the holds may have taken minutes
			return err
		}
		if err := r.move(ctx, i); err != nil {
			return r.inStep(i, err)
		}
		done.Moved++
	}
	return r.arrive(ctx, done)
}

func (r *runner) inStep(i int, err error) error {
	return fmt.Errorf("step %d, %s: %w", i+1, r.plan.Moves[i].Pod.String(), err)
}

// freeAfter returns the number of steps after which the new place of a move is free. It is 0 if no
// earlier step moves a pod away from that node.
func (r *runner) freeAfter(i int) int {
	for j := i - 1; j >= 0; j-- {
		if r.plan.Moves[j].From == r.plan.Moves[i].To {
			return j + 1
		}
	}
	return 0
}

// holdFree checks that all later pods of the plan can still be moved. It holds the new places that
// the last of the completed steps has freed, so that no new pod of another step gets them. `steps`
// is the number of completed steps. If it is 0, holdFree holds the places that are free from the
// beginning.
func (r *runner) holdFree(ctx context.Context, steps int) error {
	for i := steps; i < len(r.plan.Moves); i++ {
		m := &r.plan.Moves[i]
		pod, err := r.movable(ctx, m)
		if err == nil && r.freeAfter(i) == steps {
			r.holders[i], err = r.hold(ctx, pod, m.To)
		}
		if err != nil {
			return r.inStep(i, err)
		}
	}
	return nil
}

func (r *runner) dropAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Limit)
	defer cancel()
	var errs []error
	for _, holder := range r.holders {
		if holder != nil {
			errs = append(errs, r.drop(ctx, holder))
		}
	}
	for _, guard := range r.guards {
		errs = append(errs, r.drop(ctx, guard))
	}
	return errors.Join(errs...)
}

func changed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrChanged, fmt.Sprintf(format, args...))
}

// get reads a pod. The error wraps ErrChanged if the pod is gone, or if another pod has its name.
func (r *runner) get(ctx context.Context, p *Pod) (*corev1.Pod, error) {
	pod, err := r.Pods.Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.UID != p.UID:
		return nil, changed("pod %s is gone", p)
	case err != nil:
		return nil, err
	}
	return pod, nil
}

// until calls the function `done` after changes of pods, and at least every retryEvery, until done
// returns true or an error. After r.Limit it returns an error that wraps ErrChanged. The text of
// this error contains the argument `what`, which names the awaited event.
func (r *runner) until(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	return r.untilIn(ctx, r.Limit, what, done)
}

// untilIn is the method until with the given limit in place of r.Limit.
func (r *runner) untilIn(ctx context.Context, limit time.Duration, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	pace := flowcontrol.NewTokenBucketRateLimiter(looks, looks)
	for {
		if is, err := done(ctx); is || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-r.changes:
		case <-retry.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return changed("waited %v for %s, without success", limit, what)
			}
			return ctx.Err()
		}
		_ = pace.Wait(ctx) // an error means that the time is over, and the next check is the last
	}
}

// movable reads a pod that moves. The pod must be on the planned node, and a controller must
// replace it after its eviction.
func (r *runner) movable(ctx context.Context, m *Move) (*corev1.Pod, error) {
	pod, err := r.get(ctx, &m.Pod)
	switch {
	case err != nil:
		return nil, err
	case pod.Spec.NodeName != m.From:
		return nil, changed("it is on node %q, not on %s", pod.Spec.NodeName, m.From)
	case pod.DeletionTimestamp != nil:
		return nil, changed("it is being deleted")
	case metav1.GetControllerOf(pod) == nil:
		return nil, changed("no controller would replace it")
	case graceOf(pod) > MostGrace:
		return nil, fmt.Errorf("spec.terminationGracePeriodSeconds: %d: want at most %d, because the pod that holds the new place ends after %v, and the rest of the move also takes time", int(graceOf(pod).Seconds()), int(MostGrace.Seconds()), HolderLife)
	}
	return pod, nil
}

// move carries out the i-th move, whose new place must already be held.
func (r *runner) move(ctx context.Context, i int) error {
	m := &r.plan.Moves[i]
	pod, err := r.movable(ctx, m)
	if err != nil {
		return err
	}
	if err := r.stillHeld(ctx, i, pod); err != nil {
		return err
	}
	if err := r.keep(ctx, r.kept(i), r.lasts(pod)); err != nil {
		return err
	}
	before, err := r.siblings(ctx, pod, "")
	if err != nil {
		return err
	}
	if err := r.evict(ctx, m, pod); err != nil {
		return err
	}
	if err := r.handOver(ctx, m, pod, before, r.holders[i]); err != nil {
		return err
	}
	if err := r.drop(ctx, r.holders[i]); err != nil {
		return err
	}
	r.holders[i] = nil
	return r.end(ctx, m, pod)
}

func graceOf(pod *corev1.Pod) time.Duration {
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		return time.Duration(*grace) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// lasts returns how long a step may need its holder and its guards. It is the sum of the longest
// waits for the eviction and for the new pod, and of the old pod's grace period.
func (r *runner) lasts(pod *corev1.Pod) time.Duration { return 2*r.Limit + graceOf(pod) }

// end waits until the evicted pod is gone, because the pod keeps its resources until then. Another
// pod on its node would not get the planned resources.
func (r *runner) end(ctx context.Context, m *Move, pod *corev1.Pod) error {
	return r.untilIn(ctx, r.Limit+graceOf(pod), "its end", func(ctx context.Context) (bool, error) {
		_, err := r.get(ctx, &m.Pod)
		if errors.Is(err, ErrChanged) {
			return true, nil
		}
		return false, err
	})
}

// stillHeld replaces the holder of the i-th move if it has ended, was deleted, or would end during
// the step.
func (r *runner) stillHeld(ctx context.Context, i int, pod *corev1.Pod) error {
	h := r.holders[i]
	stands, err := r.stands(ctx, h, r.lasts(pod))
	if err != nil || stands {
		return err
	}
	if err := r.drop(ctx, h); err != nil {
		return err
	}
	r.holders[i], err = r.hold(ctx, pod, r.plan.Moves[i].To)
	return err
}

func (r *runner) hold(ctx context.Context, pod *corev1.Pod, node string) (*corev1.Pod, error) {
	holder, err := r.place(ctx, holderOf(pod, node, r.Image), node)
	if err != nil {
		return nil, fmt.Errorf("holding a place on %s: %w", node, err)
	}
	r.Tell("A place for %s/%s is held on %s by pod %s.", pod.Namespace, pod.Name, node, holder.Name)
	return holder, nil
}

// place creates a holder or guard, and waits until the kubelet of the node has admitted it. After a
// failure it deletes this pod.
func (r *runner) place(ctx context.Context, pod *corev1.Pod, node string) (*corev1.Pod, error) {
	made, err := r.Pods.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	r.since[made.UID] = time.Now()
	at := &Pod{made.Namespace, made.Name, made.UID}
	err = r.until(ctx, "the admission of pod "+made.Name, func(ctx context.Context) (bool, error) {
		now, err := r.get(ctx, at)
		switch {
		case err != nil:
			return false, err
		case wire.Ended(now):
			return false, changed("the kubelet of %s refused pod %s: %s: %s", node, now.Name, now.Status.Reason, now.Status.Message)
		case now.Spec.NodeName != "" && now.Spec.NodeName != node:
			return false, changed("pod %s went to %s, not to %s", now.Name, now.Spec.NodeName, node)
		}
		made = now
		return now.Spec.NodeName != "" && wire.Admitted(now), nil
	})
	if err == nil {
		return made, nil
	}
	if len(made.Spec.SchedulingGates) > 0 { // from an admission webhook, such as Kueue's
		err = fmt.Errorf("%w: %s", err, Unplaceable(made))
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Limit)
	defer cancel()
	return nil, errors.Join(err, r.drop(clean, made))
}

// drop deletes a holder or a guard. It returns no error if the pod is already gone.
func (r *runner) drop(ctx context.Context, holder *corev1.Pod) error {
	now := int64(0)
	err := r.Pods.Pods(holder.Namespace).Delete(ctx, holder.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(holder.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// kin has the pods of one controller.
type kin struct {
	byUID map[types.UID]*corev1.Pod
	// version is the resource version of the list of pods.
	version string
}

// siblings returns the pods of the pod's controller, among them the pod's replacement if it exists
// already. If version is set, the list is at least as new as this resource version, and the API
// server answers from its cache.
func (r *runner) siblings(ctx context.Context, pod *corev1.Pod, version string) (kin, error) {
	o := selects(pod)
	if version != "" {
		o.ResourceVersion, o.ResourceVersionMatch = version, metav1.ResourceVersionMatchNotOlderThan
	}
	all, err := r.Pods.Pods(pod.Namespace).List(ctx, o)
	if err != nil {
		return kin{}, err
	}
	out, owner := kin{map[types.UID]*corev1.Pod{}, all.ResourceVersion}, metav1.GetControllerOf(pod).UID
	for i := range all.Items {
		if c := metav1.GetControllerOf(&all.Items[i]); c != nil && c.UID == owner {
			out.byUID[all.Items[i].UID] = &all.Items[i]
		}
	}
	return out, nil
}

// selects returns options for a list of pods that includes the pod's replacement. The replacement
// has the same name in a StatefulSet, and the same pod-template-hash in a ReplicaSet of a
// Deployment. Other labels may differ from pod to pod.
func selects(pod *corev1.Pod) (o metav1.ListOptions) {
	hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	switch kind := metav1.GetControllerOf(pod).Kind; {
	case kind == "StatefulSet":
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String()
	case kind == "ReplicaSet" && hash != "":
		o.LabelSelector = labels.Set{appsv1.DefaultDeploymentUniqueLabelKey: hash}.String()
	}
	return o
}

// evict repeats the eviction request until the PodDisruptionBudgets allow it, for at most r.Limit.
func (r *runner) evict(ctx context.Context, m *Move, pod *corev1.Pod) error {
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}}
	err := r.until(ctx, "the eviction, which a PodDisruptionBudget forbids", func(ctx context.Context) (bool, error) {
		err := r.Pods.Pods(pod.Namespace).EvictV1(ctx, e)
		switch {
		case apierrors.IsTooManyRequests(err):
			return false, nil
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return false, changed("it is gone")
		}
		return err == nil, err
	})
	if err == nil {
		r.Tell("%s is evicted from %s.", m.Pod.String(), m.From)
	}
	return err
}

// handOver waits until the controller has created the new pod, and gives the holder's place to it.
// It returns when the new pod is bound. A StatefulSet creates the new pod only after the old pod
// has ended.
func (r *runner) handOver(ctx context.Context, m *Move, old *corev1.Pod, before kin, holder *corev1.Pod) error {
	return r.untilIn(ctx, r.Limit+graceOf(old), "a new place for it", func(ctx context.Context) (bool, error) {
		all, err := r.siblings(ctx, old, before.version)
		if err != nil {
			return false, err
		}
		for uid, pod := range all.byUID {
			if before.byUID[uid] != nil || pod.DeletionTimestamp != nil {
				continue
			}
			switch pod.Spec.NodeName {
			case "":
				if err := r.nominate(ctx, pod, m.To); err != nil {
					return false, err
				}
				return false, r.drop(ctx, holder)
			case m.From:
				return false, changed("the new pod %s came back to %s", pod.Name, m.From)
			}
			r.Tell("%s/%s takes its place on %s.", pod.Namespace, pod.Name, pod.Spec.NodeName)
			return true, nil
		}
		return false, nil
	})
}

// nominate sets status.nominatedNodeName of a waiting pod, so that the scheduler tries the node
// first and keeps the place from other pods of the same or a lower priority. The scheduler may
// clear the field at each attempt, so callers repeat the call.
func (r *runner) nominate(ctx context.Context, pod *corev1.Pod, node string) error {
	if pod.Status.NominatedNodeName == node {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"nominatedNodeName": node}})
	if err != nil {
		return err
	}
	_, err = r.Pods.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil // the pod is gone or has a node, which the caller's next check shows
	}
	return err
}

// Unplaceable returns the reason why no scheduler can place the pod even if there is room, or "".
func Unplaceable(pod *corev1.Pod) string {
	switch {
	case wire.Ended(pod):
		return fmt.Sprintf("it has ended (status.phase: %s)", pod.Status.Phase)
	case pod.DeletionTimestamp != nil:
		return "it is being deleted"
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("it has the scheduling gate %s: no scheduler considers it before all gates are removed", pod.Spec.SchedulingGates[0].Name)
	}
	return ""
}

// look reads the wanted pods, and reports whether all of them have a node. If they have, no further
// pod needs to move.
func (r *runner) look(ctx context.Context, done *Done) (here bool, err error) {
	here = true
	for i := range r.plan.Wanted {
		w := &r.plan.Wanted[i]
		if r.wanted[i], err = r.get(ctx, &w.Pod); err != nil {
			return false, err
		}
		if node := r.wanted[i].Spec.NodeName; node != done.Nodes[i] {
			r.Tell("%s goes to %s.", w.String(), node)
			done.Nodes[i] = node
		}
		if why := Unplaceable(r.wanted[i]); why != "" && done.Nodes[i] == "" {
			return false, changed("pod %s: %s", w.String(), why)
		}
		here = here && done.Nodes[i] != ""
	}
	return here, nil
}

// arrive nominates the wanted pods for their nodes, and waits until all of them are bound.
func (r *runner) arrive(ctx context.Context, done *Done) error {
	err := r.until(ctx, "a node for "+r.names(), func(ctx context.Context) (bool, error) {
		here, err := r.look(ctx, done)
		if err != nil || here {
			return here, err
		}
		for i := range r.wanted {
			if done.Nodes[i] != "" {
				continue
			}
			if err := r.nominate(ctx, r.wanted[i], r.plan.Wanted[i].Node); err != nil {
				return false, err
			}
		}
		return false, r.keep(ctx, nil, 0)
	})
	if errors.Is(err, ErrChanged) {
		return r.explained(err, done)
	}
	return err
}

// explained adds the scheduler's messages about pods without a node to an error.
func (r *runner) explained(err error, done *Done) error {
	for i := range r.wanted {
		if why := saidOf(r.wanted[i]); why != "" && done.Nodes[i] == "" {
			err = fmt.Errorf("%w; the scheduler's message about %s: %s", err, r.plan.Wanted[i].String(), why)
		}
	}
	return err
}

// saidOf returns the scheduler's message about a waiting pod, or "".
func saidOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return wire.Unscheduled(pod).Message
}

func (r *runner) names() string {
	names := make([]string, len(r.plan.Wanted))
	for i := range names {
		names[i] = r.plan.Wanted[i].String()
	}
	return strings.Join(names, ", ")
}

// holderOf returns an idle pod that has the requests of the given pod and can run only on the given
// node.
func holderOf(pod *corev1.Pod, node, image string) *corev1.Pod {
	no, life, grace := false, int64(HolderLife/time.Second), int64(0)
	s := &pod.Spec
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "berth-holds-place-", Namespace: pod.Namespace, Labels: map[string]string{HolderLabel: string(pod.UID)}},
		Spec: corev1.PodSpec{
			SchedulerName: s.SchedulerName, PriorityClassName: s.PriorityClassName, Priority: s.Priority, PreemptionPolicy: s.PreemptionPolicy, Tolerations: s.Tolerations,
			Overhead: s.Overhead, RuntimeClassName: s.RuntimeClassName, Resources: s.Resources, OS: s.OS, SecurityContext: s.SecurityContext,
			RestartPolicy: s.RestartPolicy, ActiveDeadlineSeconds: &life, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			InitContainers: holderContainers(s.InitContainers, image), Containers: holderContainers(s.Containers, image),
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}},
			}}},
		},
	}
	wire.CopyRules(&out.ObjectMeta, pod)
	return out
}

// holderContainers returns containers that only run the image. They have the names, resources,
// security contexts and restart policies of the given containers, and nothing else.
func holderContainers(all []corev1.Container, image string) []corev1.Container {
	var out []corev1.Container
	for i := range all {
		c := &all[i]
		out = append(out, corev1.Container{Name: c.Name, Image: image, Resources: c.Resources, SecurityContext: c.SecurityContext, RestartPolicy: c.RestartPolicy})
	}
	return out
}
