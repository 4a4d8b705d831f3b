package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/internal/gangfit"
	"github.com/berth-dev/berth/internal/moving"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// Annotations by which users allow or forbid the eviction of a pod.
const (
	// annotationEvict, of the descheduler, allows the eviction of a pod that would otherwise stay
	// because of its volumes or its controller (clings).
	annotationEvict = "descheduler.alpha.kubernetes.io/evict"
	// annotationPrefer, of the descheduler, prevents an eviction, even without a value. So does
	// annotationSafe, of the cluster autoscaler, if its value is "false". annotationDisrupt is of
	// Karpenter (mover.undisrupted).
	annotationPrefer  = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
	annotationSafe    = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDisrupt = "karpenter.sh/do-not-disrupt"
	annotationMirror  = "kubernetes.io/config.mirror"
)

// labelKueue is the label of pods that Kueue admits one by one. It holds back the replacement of
// such a pod until it admits the replacement, and it may admit another pod instead.
const labelKueue = "kueue.x-k8s.io/managed"

// remakers are the kinds of controllers that always create a replacement pod, and whose pods can be
// recreated without loss of work. Other controllers may treat an evicted pod as failed (a TaskRun),
// or lose its work (a Job).
var remakers = []string{"ReplicaSet", "StatefulSet", "ReplicationController"}

type budget struct {
	namespace, name string
	selector        labels.Selector
	allowed         int
}

func readBudgets(all []policyv1.PodDisruptionBudget) (out []budget) {
	for i := range all {
		b := &all[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			selector = labels.Everything() // an unreadable selector might match any pod
		}
		out = append(out, budget{b.Namespace, b.Name, selector, int(max(0, b.Status.DisruptionsAllowed))})
	}
	return out
}

func ofPod(all []budget, pod *corev1.Pod) (out []int) {
	for i := range all {
		if b := &all[i]; b.namespace == pod.Namespace && b.selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, i)
		}
	}
	return out
}

// mover decides which pods may be moved to make room for other pods. `priority` is the lowest
// priority of these other pods, and schedulers are their schedulerNames.
type mover struct {
	priority   int32
	schedulers []string
	budgets    []budget
	// now is the time of the survey.
	now time.Time
}

// stays returns the reason why a pod must not be moved, or "". n is the pod's node.
func (m *mover) stays(pod *corev1.Pod, n *survey.NodeState) string {
	owner := metav1.GetControllerOf(pod)
	prefers, said := pod.Annotations[annotationPrefer]
	_, mirror := pod.Annotations[annotationMirror]
	switch {
	case wire.OfReservation(pod):
		return "a Reservation holds its place"
	case mirror || owner != nil && owner.Kind == "Node":
		return "the kubelet itself runs it (static pod)"
	case owner == nil:
		return "nothing would replace it: no controller owns it"
	case owner.Kind == "DaemonSet":
		return "a DaemonSet runs it on this node"
	case corev1helpers.PodPriority(pod) >= gangfit.SystemCritical:
		return "it is critical for the system"
	case corev1helpers.PodPriority(pod) > m.priority:
		return "its priority is higher"
	case !slices.Contains(m.schedulers, pod.Spec.SchedulerName):
		return "another scheduler places it"
	case grouped(pod):
		return "it is a member of a gang"
	case pod.Annotations[annotationSafe] == "false":
		return "annotation " + annotationSafe + " keeps it"
	case wire.KeptFromEviction(pod):
		return wire.PreemptableKey + " keeps it"
	case said && prefers != "false":
		return "annotation " + annotationPrefer + " keeps it"
	case m.undisrupted(pod):
		return "annotation " + annotationDisrupt + " keeps it"
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil && *grace > int64(moving.MostGrace/time.Second) {
		return fmt.Sprintf("it may take longer than %v to end, and its new place cannot be held for that long", moving.MostGrace)
	}
	if why := m.clings(pod, owner.Kind); why != "" && pod.Annotations[annotationEvict] != "true" {
		return why
	}
	if why := m.budgeted(pod); why != "" {
		return why
	}
	if n.Account != nil {
		if _, state := n.Reported(string(pod.UID)); state != survey.StateAdmitted && !unpinned(pod) {
			return "its node has not reported it yet"
		}
	}
	return ""
}

// undisrupted reports whether Karpenter must not evict the pod now: the value of annotationDisrupt
// is "true", or a duration that has not passed since the pod's start.
func (m *mover) undisrupted(pod *corev1.Pod) bool {
	value := pod.Annotations[annotationDisrupt]
	lasts, err := time.ParseDuration(value)
	start := pod.Status.StartTime
	return value == "true" || err == nil && lasts > 0 && (start == nil || m.now.Sub(start.Time) < lasts)
}

// clings describes what would be lost with the pod, or what may tie it to its node. It returns ""
// if there is neither. `owner` is the kind of its controller.
func (m *mover) clings(pod *corev1.Pod, owner string) string {
	if owner == "Job" {
		return "a Job owns it, and its work would be lost"
	}
	if !slices.Contains(remakers, owner) {
		return "its " + owner + " might not recreate it, or the pod's work would be lost"
	}
	if pod.Labels[labelKueue] == "true" {
		return "Kueue might not admit its replacement"
	}
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.EmptyDir != nil, v.HostPath != nil:
			return "it has local volumes"
		case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
			return "it has volumes that may be tied to its node"
		}
	}
	return ""
}

// budgeted names a PodDisruptionBudget that now prevents the eviction of the pod, and explains why.
// It returns "" if there is none.
func (m *mover) budgeted(pod *corev1.Pod) string {
	of := ofPod(m.budgets, pod)
	if len(of) > 1 {
		return "several PodDisruptionBudgets cover it, so the API server never evicts it"
	}
	if i := slices.IndexFunc(of, func(b int) bool { return m.budgets[b].allowed == 0 }); i >= 0 {
		return fmt.Sprintf("PodDisruptionBudget %s allows no disruption now", m.budgets[of[i]].name)
	}
	return ""
}

// unpinned reports whether no kubelet pins anything for the pod. Reports need not list such a pod.
func unpinned(pod *corev1.Pod) bool {
	ask, err := wire.ReadPod(pod)
	return err == nil && !ask.Request.Pinnable()
}

// priorityOf returns the pod's priority, or the priority that the API server would set if the pod
// does not exist yet. If this priority is not known, the note describes what is assumed.
func priorityOf(ctx context.Context, c *survey.Cluster, pod *corev1.Pod) (priority int32, note string) {
	if pod.Spec.Priority != nil {
		return *pod.Spec.Priority, ""
	}
	classes, err := c.From.PriorityClasses(ctx)
	for i := range classes {
		one := &classes[i]
		if one.Metadata.Name == pod.Spec.PriorityClassName || pod.Spec.PriorityClassName == "" && one.GlobalDefault {
			return one.Value, ""
		}
	}
	switch {
	case pod.Spec.PriorityClassName == "" && (err == nil || errors.Is(err, source.ErrNoClasses)):
		return 0, ""
	case err != nil && !apierrors.IsNotFound(err):
		return 0, fmt.Sprintf("priority classes could not be read, so priority 0 is assumed for pod %s: %v", pod.Name, err)
	}
	return 0, fmt.Sprintf("pod %s: there is no PriorityClass %s, so priority 0 is assumed", pod.Name, pod.Spec.PriorityClassName)
}
