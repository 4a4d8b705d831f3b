package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/demo"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/scrape"
	"github.com/berth-dev/berth/test/trial"
)

const (
	// tick is the interval of the driver's checks.
	tick = 200 * time.Millisecond
	// atOnce is the number of concurrent Jobs.
	atOnce = 6
	// patience is how long a Job may take to reach its end. A new leader waits for at most a
	// minute.
	patience = 6 * time.Minute
	// stays is how long a Job that should not change is watched.
	stays = 5 * time.Second
	// endLimit is how long remains of deleted objects may exist.
	endLimit = 2 * time.Minute
	// showEvery is the interval of progress messages.
	showEvery = 10 * time.Second
)

// result is the last line.
type result struct {
	Seed uint64 `json:"seed"`
	Jobs int    `json:"jobs"`
	// AsSpecified is the number of Jobs that ended as their specs say.
	AsSpecified int `json:"asSpecified"`
	// Refused is the number of pods that kubelets have refused.
	Refused int `json:"refused"`
	// Mispredicted counts exact placements that differ from the kubelet's assignment.
	Mispredicted int `json:"mispredicted"`
	// Leftover counts remains of deleted Jobs and pods.
	Leftover int `json:"leftover"`
}

// clean reports whether all counts are as required.
func (r *result) clean() bool {
	return r.AsSpecified == r.Jobs && r.Refused+r.Mispredicted+r.Leftover == 0
}

// driver carries a plan out.
type driver struct {
	*cluster
	out  io.Writer
	each bool
	plan Plan
	next struct{ job, single, kill int }
	// active are the Jobs that have not ended, by name.
	active map[string]*active

	mu     sync.Mutex
	result result
	// judged are the pods whose refusal or placement was judged.
	judged map[types.UID]bool
	exact  int
}

// active is a Job in progress.
type active struct {
	*Job
	made time.Time
	// since is when it was first seen in its expected state; zero if it is not.
	since time.Time
}

// play carries out the plan of the seed.
func play(ctx context.Context, o *options, out io.Writer) error {
	return trial.With(ctx, out, func(ctx context.Context) (*cluster, error) { return startCluster(ctx, o) }, func(c *cluster) error {
		d := &driver{cluster: c, out: out, each: o.each, plan: NewPlan(o.seed, o.jobs), active: map[string]*active{}, judged: map[types.UID]bool{}}
		d.result.Seed, d.result.Jobs = o.seed, o.jobs
		return d.play(ctx)
	})
}

// play carries the plan out and prints the result.
func (d *driver) play(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.watch(watching); err != nil {
		return err
	}
	if err := d.drive(ctx); err != nil {
		return err
	}
	if err := d.finish(ctx); err != nil {
		return err
	}
	return d.last()
}

// last prints the last lines.
func (d *driver) last() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "%d placements were exact; the scheduler was killed %d times, the controller %d times\n", d.exact, d.Parts[schedulerPart].Restarts(), d.Parts[controllerPart].Restarts())
	last, err := json.Marshal(d.result)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%s\n", last)
	if !d.result.clean() {
		return errWrong
	}
	return nil
}

// watch judges pods until ctx ends.
func (d *driver) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(d.Client, 0, informers.WithNamespace(namespace))
	handle, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.judge(obj.(*corev1.Pod)) }, UpdateFunc: func(_, obj any) { d.judge(obj.(*corev1.Pod)) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// judge looks for refusals, and compares an exact placement with the checkpoints of the pod's node.
func (d *driver) judge(pod *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.judged[pod.UID] || pod.DeletionTimestamp != nil:
	case wire.Refused(pod):
		d.judged[pod.UID] = true
		d.result.Refused++
		d.complain("node %s refused pod %s: %s: %s", pod.Spec.NodeName, pod.Name, pod.Status.Reason, pod.Status.Message)
	case pod.Status.Phase == corev1.PodRunning:
		d.judged[pod.UID] = true
		wrong, err := d.mispredicted(pod)
		switch {
		case err != nil:
			d.complain("pod %s on %s: %v", pod.Name, pod.Spec.NodeName, err)
		case wrong != "":
			d.result.Mispredicted++
			d.complain("pod %s on %s: %s", pod.Name, pod.Spec.NodeName, wrong)
		default:
			d.exact++
		}
	}
}

func (d *driver) mispredicted(pod *corev1.Pod) (string, error) {
	node, err := d.Node(pod.Spec.NodeName)
	if err != nil {
		return "", err
	}
	return demo.Mispredicted(&hollow.Process{Dir: node.Dir}, pod)
}

// complain records a failure.
func (d *driver) complain(format string, args ...any) {
	fmt.Fprintf(d.out, "WRONG "+format+"\n", args...)
}

// drive carries out the plan.
func (d *driver) drive(ctx context.Context) error {
	begun, shown := time.Now(), time.Time{}
	for range trial.Every(ctx, tick) {
		if d.next.job == len(d.plan.Jobs) && len(d.active) == 0 {
			return nil
		}
		if err := d.Ended(); err != nil {
			return err
		}
		if err := d.step(ctx); err != nil {
			return err
		}
		if time.Since(shown) > showEvery {
			shown = time.Now()
			d.mu.Lock()
			fmt.Fprintf(d.out, "%4.0fs  Jobs %d  as specified %d  active %d  exact %d  kills %d\n", time.Since(begun).Seconds(),
				d.next.job, d.result.AsSpecified, len(d.active), d.exact, d.Parts[schedulerPart].Restarts()+d.Parts[controllerPart].Restarts())
			d.mu.Unlock()
		}
	}
	return ctx.Err()
}

// step creates the objects whose time has come, and checks the Jobs.
func (d *driver) step(ctx context.Context) error {
	for d.next.job < len(d.plan.Jobs) && len(d.active) < atOnce {
		if err := d.begin(ctx); err != nil {
			return err
		}
	}
	var list batch.JobList
	if err := d.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := d.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return err
	}
	there := map[string]*batch.Job{}
	for i := range list.Items {
		there[list.Items[i].Name] = &list.Items[i]
	}
	for _, a := range d.active {
		if err := d.look(ctx, a, there[a.Name], pods.Items); err != nil {
			return err
		}
	}
	return d.sweep(ctx, pods.Items)
}

// begin creates the next Job and a single pod, and kills the processes that the plan names.
func (d *driver) begin(ctx context.Context) error {
	job := &d.plan.Jobs[d.next.job]
	d.next.job++
	if err := d.client.Create(ctx, job.Job.DeepCopy()); err != nil {
		return fmt.Errorf("Job %s, which %s: %w", job.Name, job.Kind, err)
	}
	d.active[job.Name] = &active{Job: job, made: time.Now()}
	if d.next.single < len(d.plan.Singles) {
		if err := d.client.Create(ctx, d.plan.Singles[d.next.single].DeepCopy()); err != nil {
			return err
		}
		d.next.single++
	}
	for d.next.kill < len(d.plan.Kills) && d.plan.Kills[d.next.kill].AfterJobs <= d.next.job {
		if err := d.Parts[d.plan.Kills[d.next.kill].Part].Restart(); err != nil {
			return err
		}
		d.next.kill++
	}
	return nil
}

// look compares a Job with its expected end.
func (d *driver) look(ctx context.Context, a *active, job *batch.Job, pods []corev1.Pod) error {
	wrong, missing := a.compare(job, pods)
	switch {
	case wrong != "":
		return d.over(ctx, a, wrong)
	case missing != "":
		a.since = time.Time{}
		if time.Since(a.made) > patience {
			return d.over(ctx, a, "after "+patience.String()+": "+missing)
		}
		return nil
	case a.since.IsZero():
		a.since = time.Now()
	}
	if a.mayChange() && time.Since(a.since) < stays {
		return nil
	}
	return d.over(ctx, a, "")
}

// mayChange reports whether the end is a phase that a Job can leave again.
func (j *Job) mayChange() bool { return j.End == batch.Pending || j.End == batch.Running }

// compare describes a permanent failure of a Job, or what is still missing for its end.
func (j *Job) compare(job *batch.Job, pods []corev1.Pod) (wrong, missing string) {
	if job == nil {
		if j.End == "" {
			return "", ""
		}
		return "it is gone", ""
	}
	s := &job.Status
	phase := s.State.Phase
	final := slices.Contains([]batch.JobPhase{batch.Completed, batch.Failed, batch.Aborted, batch.Terminated}, phase)
	described := fmt.Sprintf("%s (%s: %s), restarted %d times", phase, s.State.Reason, s.State.Message, s.RetryCount)
	bound, alive := podsOf(job, pods)
	switch {
	case j.End == batch.Pending && bound > 0:
		return fmt.Sprintf("%d pods have nodes", bound), ""
	case final && phase != j.End && j.End != "":
		return described, ""
	case phase != j.End:
		return "", described
	case j.Retries != anyNumber && s.RetryCount != j.Retries:
		return "restarted " + fmt.Sprint(s.RetryCount, " times"), ""
	case j.Reason != "" && s.State.Reason != j.Reason:
		return described, ""
	case final && alive > 0:
		return "", fmt.Sprintf("%s with %d pods", described, alive)
	case j.End == batch.Running && (bound != j.Bound || int(s.Running) != j.Bound):
		return "", fmt.Sprintf("%s with %d pods; %d of them run", described, bound, s.Running)
	}
	return "", ""
}

// podsOf counts the pods of a Job that have nodes, and the pods that have not ended.
func podsOf(job *batch.Job, pods []corev1.Pod) (bound, alive int) {
	for i := range pods {
		if p := &pods[i]; metav1.IsControlledBy(p, job) {
			if p.Spec.NodeName != "" {
				bound++
			}
			if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending {
				alive++
			}
		}
	}
	return bound, alive
}

// over counts a Job as ended, or as wrong, and deletes it.
func (d *driver) over(ctx context.Context, a *active, wrong string) error {
	delete(d.active, a.Name)
	d.mu.Lock()
	if wrong == "" {
		d.result.AsSpecified++
		if d.each {
			fmt.Fprintf(d.out, "Job %s, which %s: %s after %.1fs\n", a.Name, a.Kind, a.End, time.Since(a.made).Seconds())
		}
	} else {
		d.complain("Job %s, which %s: %s; want %s (%s), restarted %d times", a.Name, a.Kind, wrong, a.End, a.Reason, a.Retries)
	}
	d.mu.Unlock()
	err := d.client.Delete(ctx, a.Job.DeepCopy(), &client.DeleteOptions{PropagationPolicy: &background})
	return client.IgnoreNotFound(err)
}

// sweep deletes single pods that have ended.
func (d *driver) sweep(ctx context.Context, pods []corev1.Pod) error {
	for i := range pods {
		p := &pods[i]
		if len(p.OwnerReferences) > 0 || !wire.Ended(p) || p.DeletionTimestamp != nil {
			continue
		}
		if err := d.client.Delete(ctx, p); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// finish checks that nothing is left.
func (d *driver) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	var left string
	var err error
	if !trial.Until(ctx, tick, func() bool { left, err = d.leftover(ctx); return err == nil && left == "" }) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.result.Leftover++
		d.complain("the run has ended, and %s %v", left, err)
	}
	return nil
}

// leftover describes the remains; "" for none.
func (d *driver) leftover(ctx context.Context) (string, error) {
	var pods corev1.PodList
	if err := d.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	if err := d.sweep(ctx, pods.Items); err != nil {
		return "", err
	}
	for _, list := range []client.ObjectList{&pods, &batch.JobList{}, &volcano.PodGroupList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}} {
		if err := d.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		if n, name, err := countOf(list); n > 0 || err != nil {
			return fmt.Sprintf("%d are left of %T, %s among them", n, list, name), err
		}
	}
	var maps corev1.ConfigMapList
	if err := d.client.List(ctx, &maps, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	for i := range maps.Items {
		if len(maps.Items[i].OwnerReferences) > 0 {
			return "ConfigMap " + maps.Items[i].Name + " is left", nil
		}
	}
	m, err := scrape.Scheduler(d.Parts[schedulerPart].Port)
	if err != nil {
		return "", err
	}
	return scrape.Left(m, scrape.Held...), nil
}

func countOf(list client.ObjectList) (n int, first string, err error) {
	err = meta.EachListItem(list, func(o runtime.Object) error {
		if n++; n > 1 {
			return nil
		}
		one, err := meta.Accessor(o)
		if err == nil {
			first = one.GetName()
		}
		return err
	})
	return n, first, err
}
