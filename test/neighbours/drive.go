package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

const (
	// atOnce is the number of concurrent cases.
	atOnce = 4
	// stays is how long a Job that should not change is watched.
	stays = 5 * time.Second
)

// runAll runs the cases and returns their results. Cases that change the nodes run last, alone.
func (c *cluster) runAll(ctx context.Context, cases []*testCase) []finding {
	found := make([]finding, len(cases))
	var beside errgroup.Group
	beside.SetLimit(atOnce)
	for i, one := range cases {
		if !one.alone() {
			beside.Go(func() error {
				found[i] = c.run(ctx, one)
				return nil
			})
		}
	}
	_ = beside.Wait() // never an error: a case returns a finding
	for i, one := range cases {
		switch {
		case one.alone():
			found[i] = c.run(ctx, one)
		case found[i].wrong != nil && one.ends() && documented[one.name] == "":
			first := found[i].wrong
			if found[i] = c.run(ctx, one); found[i].wrong == nil {
				found[i].again = first
			}
		}
	}
	return found
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// run runs a case in its own namespace.
func (c *cluster) run(ctx context.Context, one *testCase) finding {
	if one.want.rejected && c.by == byVolcano {
		return finding{skipped: "Volcano's webhook refuses it, and that is no part of its controller"}
	}
	namespace := notInNames.ReplaceAllString(strings.ToLower(one.name), "-")
	r := &running{c, one, strings.Trim(namespace[max(0, len(namespace)-57):], "-")}
	c.mu.Lock()
	if c.spaces[r.namespace]++; c.spaces[r.namespace] > 1 {
		r.namespace += "-again"
	}
	c.mu.Unlock()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return finding{wrong: err}
	}
	err := r.play(ctx)
	if err != nil {
		err = fmt.Errorf("%w; %s", err, r.describe(ctx))
	}
	return finding{wrong: errors.Join(err, r.clear(ctx), c.Client.CoreV1().Namespaces().Delete(ctx, r.namespace, metav1.DeleteOptions{}))}
}

func (r *running) play(ctx context.Context) error {
	switch err := r.create(ctx); {
	case r.want.rejected && err == nil:
		return errors.New("it is accepted")
	case r.want.rejected && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)):
		return nil
	case err != nil:
		return err
	case r.job == "":
		return r.until(ctx, r.checkBeside)
	}
	for _, s := range r.steps {
		if err := r.step(ctx, s); err != nil {
			return fmt.Errorf("step %s: %w", s, err)
		}
	}
	if r.want.pending {
		return r.staysPending(ctx)
	}
	return r.asExpected(ctx)
}

// asExpected waits until the Job has passed through its phases and the other requirements hold.
func (r *running) asExpected(ctx context.Context) error {
	if err := r.until(ctx, r.wentThrough); err != nil {
		return err
	}
	if last := r.want.phases[len(r.want.phases)-1]; last == batch.Running {
		if err := r.until(ctx, r.podsRun); err != nil {
			return err
		}
	}
	if check := checks[r.name]; check != nil {
		return r.until(ctx, func(ctx context.Context) error { return check(ctx, r) })
	}
	return nil
}

// create creates the objects of the file. An unknown field is an error, as with kubectl. If the
// case is about such a field, it is removed after the API server has named it.
func (r *running) create(ctx context.Context) error {
	if r.misspelt == "" {
		return r.createAs(ctx, metav1.FieldValidationStrict)
	}
	if err := r.createAs(ctx, metav1.FieldValidationStrict); err == nil || !strings.Contains(err.Error(), r.misspelt) {
		return fmt.Errorf("want that %s is refused, created strictly: %w", r.misspelt, err)
	}
	return r.createAs(ctx, metav1.FieldValidationIgnore)
}

// createAs creates the objects with the given field validation.
func (r *running) createAs(ctx context.Context, validation string) error {
	for _, o := range r.objects {
		o = o.DeepCopy()
		kind := o.GroupVersionKind()
		mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) && kind.Kind == "Queue" {
			continue // Berth does not serve the kind
		}
		if err != nil {
			return err
		}
		options := metav1.CreateOptions{FieldValidation: validation}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			o.SetNamespace(r.namespace)
			_, err = r.dynamic.Resource(mapping.Resource).Namespace(r.namespace).Create(ctx, o, options)
		} else if _, err = r.dynamic.Resource(mapping.Resource).Create(ctx, o, options); apierrors.IsAlreadyExists(err) {
			err = nil // another Job of the same file has created it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step carries out a step on the Job:
//
//	running            wait until it runs, with as many pods as it asks for
//	delete:POD         delete a pod
//	patch:JSONPATCH    change the Job
//	sleep:SECONDS      wait until as many pods run as the Job asks for
//	phase:PHASE        wait until it was in the phase
//	taint, untaint     taint all nodes against pods, or remove the taints
//	ungate             remove the scheduling gates of its pods
//	bind-claims        create volumes for the claims of its pods, as a provisioner would
func (r *running) step(ctx context.Context, text string) error {
	verb, argument, _ := strings.Cut(text, ":")
	switch verb {
	case "running":
		if err := r.until(ctx, func(context.Context) error { return r.wasIn(batch.Running) }); err != nil {
			return err
		}
		return r.until(ctx, r.podsRun)
	case "sleep":
		return r.until(ctx, r.podsRun)
	case "bind-claims":
		return r.bindClaims(ctx)
	case "delete":
		return r.Client.CoreV1().Pods(r.namespace).Delete(ctx, argument, metav1.DeleteOptions{})
	case "patch":
		_, err := r.dynamic.Resource(batch.Jobs).Namespace(r.namespace).Patch(ctx, r.job, types.JSONPatchType, []byte(argument), metav1.PatchOptions{})
		return err
	case "phase":
		return r.until(ctx, func(context.Context) error { return r.wasIn(batch.JobPhase(argument)) })
	case "taint":
		return r.taint(ctx, []corev1.Taint{{Key: "example.com/closed", Effect: corev1.TaintEffectNoSchedule}})
	case "untaint":
		return r.taint(ctx, nil)
	case "ungate":
		return r.ungate(ctx)
	}
	return fmt.Errorf("want running, delete, patch, sleep, phase, taint, untaint, ungate or bind-claims")
}

// wentThrough returns an error that names the missing phases.
func (r *running) wentThrough(context.Context) error {
	seen := r.seen()
	left := r.want.phases
	for _, phase := range seen {
		if len(left) > 0 && left[0] == phase {
			left = left[1:]
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("it went through %v", seen)
	}
	return nil
}

// wasIn returns an error if the Job was not in a phase.
func (r *running) wasIn(phase batch.JobPhase) error {
	if seen := r.seen(); !slices.Contains(seen, phase) {
		return fmt.Errorf("it went through %v", seen)
	}
	return nil
}

// staysPending watches a Job that should stay pending, without a pod that has a node.
func (r *running) staysPending(ctx context.Context) error {
	err := r.until(ctx, func(context.Context) error {
		if len(r.seen()) == 0 {
			return errors.New("it has no phase")
		}
		return nil
	})
	for end := time.Now().Add(stays); err == nil && time.Now().Before(end); {
		pods, listErr := r.pods(ctx)
		placed := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != "" })
		switch {
		case listErr != nil:
			return listErr
		case placed >= 0:
			return fmt.Errorf("pod %s has node %s", pods[placed].Name, pods[placed].Spec.NodeName)
		case len(r.seen()) != 1:
			return fmt.Errorf("it went through %v", r.seen())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(tick):
		}
	}
	return err
}

func (r *running) taint(ctx context.Context, taints []corev1.Taint) error {
	list, err := r.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		node := &list.Items[i]
		node.Spec.Taints = taints
		if _, err := r.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// bindClaims binds two claims to volumes, as a cluster's provisioner would: the claim that the Job
// names and the one created for it.
func (r *running) bindClaims(ctx context.Context) error {
	claims := r.Client.CoreV1().PersistentVolumeClaims(r.namespace)
	var list *corev1.PersistentVolumeClaimList
	err := r.until(ctx, func(ctx context.Context) (err error) {
		if list, err = claims.List(ctx, metav1.ListOptions{}); err == nil && len(list.Items) < 2 {
			err = fmt.Errorf("%d claims: want 2", len(list.Items))
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := r.bind(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// bind creates a volume for a claim, and binds it to the claim.
func (r *running) bind(ctx context.Context, c *corev1.PersistentVolumeClaim) (err error) {
	claims, volumes := r.Client.CoreV1().PersistentVolumeClaims(r.namespace), r.Client.CoreV1().PersistentVolumes()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: r.namespace + "-" + c.Name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: c.Spec.AccessModes, Capacity: c.Spec.Resources.Requests,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/volumes/" + c.Name}},
		ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
	}}
	if volume, err = volumes.Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return err
	}
	c.Spec.VolumeName = volume.Name
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	if c, err = claims.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
		return err
	}
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: c.Spec.AccessModes, Capacity: c.Spec.Resources.Requests}
	if _, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
		return err
	}
	volume.Status.Phase = corev1.VolumeBound
	_, err = volumes.UpdateStatus(ctx, volume, metav1.UpdateOptions{})
	return err
}

// ungate waits for the Job's pods, which must have no nodes, and removes their scheduling gates.
func (r *running) ungate(ctx context.Context) error {
	var pods []corev1.Pod
	err := r.until(ctx, func(ctx context.Context) (err error) {
		if pods, err = r.pods(ctx); err == nil && len(pods) < 2 {
			err = fmt.Errorf("it has %d pods", len(pods))
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			return fmt.Errorf("pod %s has a node in spite of its gate", pods[i].Name)
		}
		patch := []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`)
		if _, err := r.Client.CoreV1().Pods(r.namespace).Patch(ctx, pods[i].Name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}
