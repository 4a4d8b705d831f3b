package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// checks are further requirements of EXPECT.tsv, by case. Each returns what is missing.
var checks = map[string]func(context.Context, *running) error{
	"jp01": func(ctx context.Context, r *running) error {
		if _, err := r.Client.CoreV1().ConfigMaps(r.namespace).Get(ctx, r.job+"-svc", metav1.GetOptions{}); err != nil {
			return err
		}
		return r.eachPod(ctx, func(p *corev1.Pod) error {
			if !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == r.job+"-svc" }) {
				return errors.New("no volume with its hosts")
			}
			return nil
		})
	},
	"jp03": func(ctx context.Context, r *running) error {
		_, err := r.Client.NetworkingV1().NetworkPolicies(r.namespace).Get(ctx, r.job, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("NetworkPolicy %s: got %w, want that it is not found", r.job, err)
		}
		return nil
	},
	"jp05": checkAllPlugins,
	"rs01": func(ctx context.Context, r *running) error {
		pods, err := r.pods(ctx)
		if err == nil && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }) {
			err = errors.New("no failed pod is kept")
		}
		return err
	},
	"vo01": func(ctx context.Context, r *running) error {
		list, err := r.Client.CoreV1().PersistentVolumeClaims(r.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(list.Items, func(c corev1.PersistentVolumeClaim) bool { return strings.HasPrefix(c.Name, r.job) }) {
			err = fmt.Errorf("%d PersistentVolumeClaims, none of the Job's", len(list.Items))
		}
		return err
	},
}

// checkAllPlugins looks for the key of the ssh plugin and the variable of env.
func checkAllPlugins(ctx context.Context, r *running) error {
	secrets, err := r.Client.CoreV1().Secrets(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(secrets.Items, func(s corev1.Secret) bool { return strings.HasPrefix(s.Name, r.job) && len(s.Data) > 0 }) {
		return errors.New("no Secret with keys")
	}
	return r.eachPod(ctx, func(p *corev1.Pod) error {
		if !slices.ContainsFunc(p.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "VC_TASK_INDEX" }) {
			return errors.New("no variable VC_TASK_INDEX")
		}
		return nil
	})
}

var jobFlows = schema.GroupVersionResource{Group: "flow.volcano.sh", Version: "v1alpha1", Resource: "jobflows"}

// checkBeside returns an error if objects other than Jobs are not as expected: pods run, each in a
// group of Volcano's controller; Reservations hold resources; JobFlows are complete.
func (r *running) checkBeside(ctx context.Context) error {
	for _, o := range r.objects {
		switch o.GetKind() {
		case "JobFlow":
			return r.checkFlow(ctx, o.GetName())
		case "Reservation":
			if err := r.checkReservation(ctx, o.GetName()); err != nil {
				return err
			}
		}
	}
	return r.checkPods(ctx)
}

// checkPods returns an error if too few pods run, or if a pod has no group of Volcano's controller.
func (r *running) checkPods(ctx context.Context) error {
	pods, err := r.Client.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	run := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
			run++
		}
		if p.Spec.SchedulerName == byVolcano && r.by == byVolcano && p.Annotations[volcano.GroupNameAnnotation] == "" {
			return fmt.Errorf("pod %s has no group", p.Name)
		}
	}
	if run < r.want.pods {
		return fmt.Errorf("%d of %d pods run: want %d", run, len(pods.Items), r.want.pods)
	}
	return nil
}

func (r *running) checkFlow(ctx context.Context, name string) error {
	flow, err := r.dynamic.Resource(jobFlows).Namespace(r.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if phase, _, _ := unstructured.NestedString(flow.Object, "status", "state", "phase"); phase != "Succeed" {
		return fmt.Errorf("JobFlow %s is %q: %v", name, phase, flow.Object["status"])
	}
	return nil
}

func (r *running) checkReservation(ctx context.Context, name string) error {
	o, err := r.dynamic.Resource(koordinator.Reservations).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); koordinator.ReservationPhase(phase) {
	case koordinator.ReservationAvailable, koordinator.ReservationSucceeded:
		return nil
	default:
		return fmt.Errorf("reservation %s is %q: %v", name, phase, o.Object["status"])
	}
}

// clear deletes the case's objects without a namespace.
func (r *running) clear(ctx context.Context) (err error) {
	for _, o := range r.objects {
		if o.GetKind() == "Reservation" {
			err = errors.Join(err, r.dynamic.Resource(koordinator.Reservations).Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
		}
	}
	return err
}
