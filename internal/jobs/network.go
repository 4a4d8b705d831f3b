package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// network creates the objects of the svc plugin: a headless Service with which pods find each other
// by name, a ConfigMap with the hosts of each task, and a NetworkPolicy that allows traffic to
// these pods only from the Job's own pods. It returns the objects of other owners that have their
// names. It leaves these objects unchanged, and the pods may then not find each other by name.
func (r *Reconciler) network(ctx context.Context, job *batch.Job, s *spec, p *plugins) (others []string, err error) {
	meta := metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, OwnerReferences: ownerOf(job)}
	objects := []client.Object{serviceOf(job, p, meta)}
	if !p.svc.noNetworkPolicy {
		selector := metav1.LabelSelector{MatchLabels: podsOfJob(job)}
		objects = append(objects, &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: selector, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &selector}}}},
		}})
	}
	for _, o := range objects {
		of, _ := r.Client.GroupVersionKindFor(o) // the scheme has all kinds that this package creates
		ours, err := r.ensure(ctx, job, o)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s %s/%s: %w", of.Kind, job.Namespace, job.Name, err)
		case !ours:
			others = append(others, of.Kind+" "+job.Name)
		}
	}
	return others, r.hosts(ctx, job, s)
}

func podsOfJob(job *batch.Job) map[string]string {
	return map[string]string{batch.JobNameKey: job.Name, batch.JobNamespaceKey: job.Namespace}
}

// serviceOf returns the Job's headless Service. For a Job with the plugin ray, it has the ports of
// the head. If such a Job does not name the plugin svc itself, the Service selects only the head's
// pods.
func serviceOf(job *batch.Job, p *plugins, meta metav1.ObjectMeta) *corev1.Service {
	spec := corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: podsOfJob(job), PublishNotReadyAddresses: p.svc.publishNotReady,
		Ports: []corev1.ServicePort{{Name: "placeholder-volcano", Port: 1, Protocol: corev1.ProtocolTCP}},
	}
	if p.ray != nil {
		spec.Ports = p.ray.ports()
		if !p.svcAsked {
			spec.Selector[batch.TaskSpecKey] = p.ray.head
		}
	}
	return &corev1.Service{ObjectMeta: meta, Spec: spec}
}

// ensure creates an object if no object has its name, and reports whether the object is the Job's.
// If it belongs to a deleted Job of the same name, ensure returns an error until the object is
// gone.
func (r *Reconciler) ensure(ctx context.Context, job *batch.Job, o client.Object) (ours bool, err error) {
	there := o.DeepCopyObject().(client.Object)
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(o), there)
	switch {
	case apierrors.IsNotFound(err):
		return true, client.IgnoreAlreadyExists(r.Client.Create(ctx, o))
	case err == nil && ofEarlierJob(there, job):
		err = errEarlierJob
	}
	return metav1.IsControlledBy(there, job), err
}

var errEarlierJob = errors.New("it belongs to a deleted Job of the same name, and is not deleted yet")

// ofEarlierJob reports whether an object belongs to a deleted Job that had the name of this one.
// The garbage collector deletes such an object.
func ofEarlierJob(o metav1.Object, job *batch.Job) bool {
	its, mine := metav1.GetControllerOf(o), ownerOf(job)[0]
	return its != nil && its.APIVersion == mine.APIVersion && its.Kind == mine.Kind && its.Name == mine.Name && its.UID != mine.UID
}

// hosts keeps the ConfigMap with the hosts up to date, because tasks can grow and shrink.
func (r *Reconciler) hosts(ctx context.Context, job *batch.Job, s *spec) error {
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: hostsName(job), OwnerReferences: ownerOf(job)}, Data: hosts(job, s),
	}
	have := new(corev1.ConfigMap)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		err = client.IgnoreAlreadyExists(r.Client.Create(ctx, want))
	case err == nil && ofEarlierJob(have, job):
		err = errEarlierJob
	case err == nil && !metav1.IsControlledBy(have, job):
		err = fmt.Errorf("it exists already and does not belong to this Job")
	case err == nil && !maps.Equal(have.Data, want.Data):
		have.Data = want.Data
		err = r.Client.Update(ctx, have)
	}
	if err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}
