package gang

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/internal/ledger"
)

// isCoupled says whether a pod's place changes where others like it may go.
func isCoupled(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// aspects is what plugins look at in a pod.
type aspects struct {
	Namespace     string
	Labels        map[string]string
	NodeName      string
	Selector      map[string]string
	Affinity      *corev1.Affinity
	Tolerations   []corev1.Toleration
	Spread        []corev1.TopologySpreadConstraint
	Overhead      corev1.ResourceList
	Resources     *corev1.ResourceRequirements
	Init, Main    []wants
	Volumes       []corev1.Volume
	Claims        []corev1.PodResourceClaim
	HostNetwork   bool
	Shape         *ledger.Shape // nil: nothing is pinned
	Owner         string        // of pods with claims of their own
	SchedulerName string
	Priority      int32 // of pods that are nominated to a node some count and some do not
}

type wants struct {
	Image     string
	Resources corev1.ResourceRequirements
	Ports     []corev1.ContainerPort
	Restart   *corev1.ContainerRestartPolicy
}

// ownLabels differ between pods of one template, and no plugin is asked by them unless somebody
// selects by them.
var ownLabels = []string{
	"apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name",
	"batch.kubernetes.io/job-completion-index", "volcano.sh/task-index",
}

// likeness is equal for pods that every plugin treats alike. Pods with volumes or claims that are
// not told apart by their pods' specs alone have one of their own.
func likeness(pod *corev1.Pod, c *ledger.Candidate) string {
	s := &pod.Spec
	a := aspects{
		Namespace: pod.Namespace, Labels: map[string]string{}, NodeName: s.NodeName, Selector: s.NodeSelector, Affinity: s.Affinity,
		Tolerations: s.Tolerations, Spread: s.TopologySpreadConstraints, Overhead: s.Overhead, Resources: s.Resources,
		Claims: s.ResourceClaims, HostNetwork: s.HostNetwork, SchedulerName: s.SchedulerName,
		Priority: corev1helpers.PodPriority(pod),
		Init:     wantsOf(s.InitContainers), Main: wantsOf(s.Containers),
	}
	if c != nil {
		a.Shape = &c.Shape
	}
	for key, value := range pod.Labels {
		if isCoupled(pod) || !slices.Contains(ownLabels, key) {
			a.Labels[key] = value
		}
	}
	for i := range s.Volumes {
		if !isHarmless(&s.Volumes[i]) {
			a.Volumes = append(a.Volumes, s.Volumes[i])
		}
	}
	if len(a.Volumes) > 0 || len(a.Claims) > 0 || c != nil && c.Shape == 0 {
		a.Owner = string(pod.UID)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Sprint(pod.UID)
	}
	return string(text)
}

func wantsOf(containers []corev1.Container) []wants {
	out := make([]wants, len(containers))
	for i := range containers {
		c := &containers[i]
		out[i] = wants{c.Image, c.Resources, c.Ports, c.RestartPolicy}
	}
	return out
}

// isHarmless says whether a volume has no say in the pod's node.
func isHarmless(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil || v.HostPath != nil
}
