package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	group "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/clip"
)

// Reconciler creates, restarts and deletes the pods of Jobs. Client may read from a cache. Live
// reads from the API server.
//
// Reconcile returns these results:
//
//	| result            | when                                    | next call                   |
//	|-------------------|-----------------------------------------|-----------------------------|
//	| nil               | Reconcile has written all that it can   | after a change of the Job,  |
//	|                   |                                         | its pods or its PodGroup    |
//	| nil, RequeueAfter | the Job was read from an old copy, is   | after this time             |
//	|                   | not ours, needs more pods, or waits for |                             |
//	|                   | a time                                  |                             |
//	| an error          | a request failed                        | after a back-off            |
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Scheduler is the schedulerName of pods whose Job names none.
	Scheduler string
	// Mine returns "" if this controller owns Jobs of a schedulerName, and otherwise the reason why
	// it does not.
	Mine func(ctx context.Context, scheduler string) (why string)
	// Now returns the time.
	Now func() time.Time
}

// parallel is the number of pods of a Job that are created at a time. batchSize is the maximum
// number of pods that one reconciliation creates, so that a large Job does not delay others.
const (
	parallel  = 8
	batchSize = 256
)

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	job := new(batch.Job)
	if err := r.Client.Get(ctx, q.NamespacedName, job); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if job.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the garbage collector deletes the Job's objects
	}
	if why := r.Mine(ctx, job.Spec.SchedulerName); why != "" {
		r.tell(job, corev1.EventTypeNormal, "StandAside", why)
		return reconcile.Result{RequeueAfter: standAsideFor}, nil
	}
	if job.Malformed != "" && !isFinal(job.Status.State.Phase) {
		return reconcile.Result{}, r.refuse(ctx, job, errors.New(job.Malformed))
	}
	if wrong := Refused(job); len(wrong) > 0 && !isFinal(job.Status.State.Phase) {
		return reconcile.Result{}, r.refuse(ctx, job, wrong.ToAggregate())
	}
	result, err := r.step(ctx, job)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictBackoff}, nil
	}
	return result, err
}

// conflictBackoff is the time after which the controller reads a newer copy of a Job.
const conflictBackoff = 20 * time.Millisecond

// standAsideFor is the time after which the controller checks a Job of another controller again.
const standAsideFor = time.Minute

func (r *Reconciler) tell(job *batch.Job, kind, reason, text string) {
	r.Events.Eventf(job, nil, kind, reason, "Reconcile", "%s", text)
}

// refuse ends a Job that Berth does not support.
func (r *Reconciler) refuse(ctx context.Context, job *batch.Job, why error) error {
	jobsRefused.Inc()
	r.tell(job, corev1.EventTypeWarning, "Refused", why.Error())
	n := stepper{job: job, spec: specOf(job), now: metav1.NewTime(r.Now().Truncate(time.Second))}
	n.out.status = *job.Status.DeepCopy()
	n.enter(batch.Failed, "Refused", clip.Text(why.Error(), clip.Condition))
	return r.write(ctx, job, &n.out.status)
}

func (r *Reconciler) step(ctx context.Context, job *batch.Job) (reconcile.Result, error) {
	s, err := r.plan(ctx, job)
	if err != nil {
		return reconcile.Result{}, err
	}
	if job.Status.State.Phase == "" {
		for _, text := range Unserved(job) {
			r.tell(job, corev1.EventTypeWarning, "PassedOver", text)
		}
	}
	if err := r.confirm(ctx, job, &s); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.remove(ctx, s.remove); err != nil {
		return reconcile.Result{}, err
	}
	if isFinal(s.status.State.Phase) {
		return r.close(ctx, job)
	}
	if err := r.surroundings(ctx, job, &s); err != nil {
		if !apierrors.IsConflict(err) {
			r.tell(job, corev1.EventTypeWarning, "FailedCreate", err.Error())
		}
		return reconcile.Result{}, err
	}
	more, err := r.create(ctx, job, s.make)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case more:
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	case !s.again.IsZero():
		return reconcile.Result{RequeueAfter: max(time.Second, s.again.Sub(r.Now()))}, nil
	}
	return reconcile.Result{}, nil
}

// plan returns the next step from the cache. If pods seem to be evicted, it reads the pods from the
// API server, because the cache of pods may be older than the status.
func (r *Reconciler) plan(ctx context.Context, job *batch.Job) (step, error) {
	pods, err := r.podsOf(ctx, r.Client, job)
	if err != nil {
		return step{}, err
	}
	g := new(group.PodGroup)
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: job.Namespace, Name: groupName(job)}, g); apierrors.IsNotFound(err) {
		g = nil
	} else if err != nil {
		return step{}, err
	}
	s := next(job, g, pods, r.Now())
	if !s.suspects {
		return s, nil
	}
	if pods, err = r.podsOf(ctx, r.Live, job); err != nil {
		return step{}, err
	}
	return next(job, g, pods, r.Now()), nil
}

func (r *Reconciler) podsOf(ctx context.Context, from client.Reader, job *batch.Job) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := from.List(ctx, &list, client.InNamespace(job.Namespace), client.MatchingLabels{batch.JobNameKey: job.Name}); err != nil {
		return nil, fmt.Errorf("pods of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// confirm writes the status if it changes. If it does not change and pods must be deleted, confirm
// checks that the Job has not changed since it was read. A decision that was made from an old copy
// is then not carried out.
func (r *Reconciler) confirm(ctx context.Context, job *batch.Job, s *step) error {
	if !equality.Semantic.DeepEqual(job.Status, s.status) {
		return r.write(ctx, job, &s.status)
	}
	if len(s.remove) == 0 {
		return nil
	}
	now := new(batch.Job)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), now); err != nil {
		return client.IgnoreNotFound(err)
	}
	if now.UID != job.UID || now.ResourceVersion != job.ResourceVersion {
		return apierrors.NewConflict(batch.Jobs.GroupResource(), job.Name, errors.New("the Job has changed since the controller read it"))
	}
	return nil
}

func (r *Reconciler) write(ctx context.Context, job *batch.Job, status *batch.JobStatus) error {
	was := job.Status.State.Phase
	job.Status = *status
	if err := r.Client.Status().Update(ctx, job); err != nil {
		return fmt.Errorf("status of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	if phase := status.State.Phase; phase != was {
		phasesEntered.WithLabelValues(string(phase)).Inc()
		r.tell(job, corev1.EventTypeNormal, string(phase), "from "+cmp.Or(string(was), "no phase")+": "+status.State.Message)
	}
	return nil
}

// remove deletes pods in the given order.
func (r *Reconciler) remove(ctx context.Context, pods []*corev1.Pod) error {
	for _, pod := range pods {
		err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		switch {
		case err == nil:
			podsDeleted.Inc()
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// close deletes the PodGroup of an ended Job, and the Job itself after its ttlSecondsAfterFinished.
// It keeps a Job that was aborted, because Volcano's controller could resume the Job
// (isJobFinished in Volcano's pkg/controllers/garbagecollector).
func (r *Reconciler) close(ctx context.Context, job *batch.Job) (reconcile.Result, error) {
	g := &group.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: groupName(job)}}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(g), g); err == nil && g.DeletionTimestamp == nil {
		if err := r.Client.Delete(ctx, g); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
	}
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil || job.Status.State.Phase == batch.Aborted {
		return reconcile.Result{}, nil
	}
	left := job.Status.State.LastTransitionTime.Add(time.Duration(*ttl) * time.Second).Sub(r.Now())
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err := r.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// create creates pods, and reports whether more must be created. It stops after a failure. If a
// quota is used up, each further pod would only cost a request and an event, and other Jobs would
// have to wait.
func (r *Reconciler) create(ctx context.Context, job *batch.Job, members []member) (more bool, err error) {
	if more = len(members) > batchSize; more {
		members = members[:batchSize]
	}
	s := specOf(job)
	all, going := errgroup.WithContext(ctx)
	all.SetLimit(parallel)
	for _, m := range members {
		all.Go(func() error {
			if going.Err() != nil {
				return nil
			}
			return r.createPod(ctx, job, podOf(job, &s, m, r.Scheduler))
		})
	}
	return more, all.Wait()
}

// createPod creates a pod. It returns no error if a pod of the Job already has the name, or if the
// pod that had the name has just gone. If another pod has the name, the Job cannot run yet, and an
// event names this pod.
func (r *Reconciler) createPod(ctx context.Context, job *batch.Job, pod *corev1.Pod) error {
	err := r.Client.Create(ctx, pod)
	switch {
	case err == nil:
		podsCreated.Inc()
		return nil
	case !apierrors.IsAlreadyExists(err):
		r.tell(job, corev1.EventTypeWarning, "FailedCreate", err.Error())
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	there := new(corev1.Pod)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), there); err != nil {
		return client.IgnoreNotFound(err)
	}
	if metav1.IsControlledBy(there, job) {
		return nil
	}
	if ofEarlierJob(there, job) {
		r.tell(job, corev1.EventTypeWarning, "FailedCreate", "pod "+pod.Name+": "+errEarlierJob.Error())
		return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, errEarlierJob)
	}
	r.tell(job, corev1.EventTypeWarning, "FailedCreate", "pod "+pod.Name+" exists already and does not belong to this Job: delete the pod, or give the Job another name")
	return fmt.Errorf("pod %s/%s exists already and does not belong to Job %s", pod.Namespace, pod.Name, job.Name)
}

// surroundings creates the objects that the pods need. The PodGroup comes first, so that no
// scheduler places the pods one by one. It creates keys and claims only if there are pods to
// create.
func (r *Reconciler) surroundings(ctx context.Context, job *batch.Job, step *step) error {
	s := specOf(job)
	want := podGroupOf(job, &s, step.later, step.gone)
	have := new(group.PodGroup)
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: want.Namespace, Name: want.Name}, have)
	switch {
	case apierrors.IsNotFound(err):
		err = client.IgnoreAlreadyExists(r.Client.Create(ctx, want))
	case err == nil && !equality.Semantic.DeepEqual(have.Spec, want.Spec):
		have.Spec = want.Spec
		err = r.Client.Update(ctx, have)
	}
	if err != nil {
		return fmt.Errorf("PodGroup %s/%s: %w", want.Namespace, want.Name, err)
	}
	p, _ := pluginsOf(job) // a Job with errors was refused before
	var others []string
	if p.svc != nil {
		if others, err = r.network(ctx, job, &s, &p); err != nil {
			return err
		}
	}
	if len(step.make) == 0 {
		return nil
	}
	for _, name := range others {
		r.tell(job, corev1.EventTypeWarning, "PassedOver", name+" exists already and does not belong to this Job, which leaves it unchanged: give the Job another name if its pods do not find each other")
	}
	if p.ssh != nil {
		if err := r.keys(ctx, job, &s, p.ssh); err != nil {
			return err
		}
	}
	return r.claims(ctx, job)
}

// keys creates the Secret of the ssh plugin. Its name contains a part of the Job's UID, so an
// existing Secret counts as the Job's own. The controller may not read Secrets. So it first tries,
// as a dry run, to create a Secret without keys, and generates keys only if no Secret exists.
// Generating keys takes as long as a hundred requests, and the method is called repeatedly for a
// Job whose pods are refused.
func (r *Reconciler) keys(ctx context.Context, job *batch.Job, s *spec, p *sshPlugin) error {
	failed := func(err error) error { return fmt.Errorf("the Secret %s/%s: %w", job.Namespace, secretName(job), err) }
	err := r.Client.Create(ctx, &corev1.Secret{ObjectMeta: secretMeta(job)}, client.DryRunAll)
	switch { // other errors may only be about the missing keys
	case apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err):
		return failed(err)
	}
	secret, err := p.secret(job, s)
	if err == nil {
		err = client.IgnoreAlreadyExists(r.Client.Create(ctx, secret))
	}
	if err != nil {
		return failed(err)
	}
	return nil
}

// claims creates the PersistentVolumeClaims for the Job's volumes. It does not create claims that
// the Job only names: the pods wait until these exist.
func (r *Reconciler) claims(ctx context.Context, job *batch.Job) error {
	for i := range job.Spec.Volumes {
		v := &job.Spec.Volumes[i]
		if v.VolumeClaim == nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: claimName(job, i), OwnerReferences: ownerOf(job)}, Spec: *v.VolumeClaim.DeepCopy(),
		}
		if err := client.IgnoreAlreadyExists(r.Client.Create(ctx, claim)); err != nil {
			return fmt.Errorf("PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}
