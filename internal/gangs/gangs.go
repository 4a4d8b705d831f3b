// Package gangs computes the state of a gang from its members: which members count, which members
// need or have a node, how many are missing, which members are planned together, and the gang's
// stage. The scheduler, the command line and the web page use the package, so they agree. Next
// computes what a scheduler must do for a gang after an event. The package has no side effects.
package gangs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/wire"
)

// Part is a pod's membership of a gang.
type Part struct {
	// Claims is the membership that the pod's own annotations and labels declare. Says is the
	// membership that counts, see PartOf.
	Claims, Says wire.Membership
	// Wrong is the error if a part of the membership cannot be parsed.
	Wrong error
}

// PartOf returns the pod's membership of a gang, or false. A bound pod is a member of the gang that
// its Binding names. Its own annotations and labels cannot name another gang, because a user may
// have changed them to get the pod deleted or to protect it from eviction. A Binding of another
// scheduler, in whose place Berth was installed, does not name the gang. Then the pod's own
// annotations and labels count if trusting is set.
func PartOf(pod *corev1.Pod, trusting bool) (Part, bool) {
	says, err := wire.ReadMembership(pod)
	m := Part{Claims: says, Says: says, Wrong: err}
	if pod.Spec.NodeName == "" {
		return m, wire.InGang(pod)
	}
	switch bound, said := wire.ReadBoundFor(pod); {
	case !said:
		return m, trusting && wire.InGang(pod)
	case says.Gang != bound.Gang:
		m.Says, m.Wrong = wire.Membership{Gang: bound.Gang}, nil
	}
	return m, !m.Says.Gang.IsZero()
}

// Active reports whether a member counts: it has not ended and is not being deleted.
func Active(pod *corev1.Pod) bool { return !wire.Ended(pod) && pod.DeletionTimestamp == nil }

// overdue is the time after a pod's grace period from which the pod is Fixed.
const overdue = 5 * time.Minute

// Fixed reports whether an eviction does not free a pod's resources. The pod is static: its kubelet
// creates it again at once. Or it has been deleted, and its kubelet has not ended it in time. If a
// pod is being deleted, deletionTimestamp is the end of its grace period.
func Fixed(pod *corev1.Pod, now time.Time) bool {
	// If a pod has this annotation and there is no static pod, the kubelet does not run the pod.
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return static || pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) > overdue
}

// Waits reports whether a member waits for a node: the pod is active, has no scheduling gates and
// is not placed. The parameter placed means that the member has a node, or that its Binding is
// being written.
func Waits(pod *corev1.Pod, placed bool) bool {
	return !placed && Active(pod) && len(pod.Spec.SchedulingGates) == 0
}

// Missing explains why a gang lacks pods for its minimum, or returns "".
func Missing(pods []*corev1.Pod) string { return cmp.Or(gated(pods), Ordered(pods)) }

// Ordered describes an active member that has no node and is the only active member of its
// StatefulSet. It returns "" if there is none.
func Ordered(pods []*corev1.Pod) string {
	of, count := map[string]*corev1.Pod{}, map[string]int{}
	for _, pod := range pods {
		if c := metav1.GetControllerOfNoCopy(pod); c != nil && c.Kind == "StatefulSet" && Active(pod) {
			of[c.Name] = pod
			count[c.Name]++
		}
	}
	for _, set := range slices.Sorted(maps.Keys(of)) {
		if pod := of[set]; count[set] == 1 && pod.Spec.NodeName == "" {
			return fmt.Sprintf("StatefulSet %s creates no other pod before pod %s is ready, if its podManagementPolicy is not Parallel", set, pod.Name)
		}
	}
	return ""
}

// gated describes the active members that have scheduling gates: their number, and the oldest with
// its first gate. It returns "" if there are none. No scheduler considers a pod with a gate.
func gated(pods []*corev1.Pod) string {
	var first *corev1.Pod
	n := 0
	for _, pod := range pods {
		if !Active(pod) || len(pod.Spec.SchedulingGates) == 0 {
			continue
		}
		if n++; first == nil || Compare(pod, first) < 0 {
			first = pod
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("pod %s has the scheduling gate %s", first.Name, first.Spec.SchedulingGates[0].Name)
	}
	return fmt.Sprintf("%d pods have scheduling gates, such as pod %s with %s", n, first.Name, first.Spec.SchedulingGates[0].Name)
}

// Done reports whether a member counts for the minimum: it has a node, or had a node and has
// succeeded. A member that has failed or is being deleted does not count.
func Done(pod *corev1.Pod, placed bool) bool {
	return placed && pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed
}

// Compare orders members: the oldest first, then by name.
func Compare(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// Count has the number of all members, and the number of members of each task.
type Count struct {
	All   int
	Tasks map[string]int
}

// Add adds n members of a task. If n is negative, it removes members.
func (c *Count) Add(task string, n int) {
	c.All += n
	if c.Tasks == nil {
		c.Tasks = map[string]int{}
	}
	if c.Tasks[task] += n; c.Tasks[task] == 0 {
		delete(c.Tasks, task)
	}
}

// Lacks describes how many pods the sum of the counts lacks for the gang's minimum. It returns ""
// if the sum reaches the minimum.
func Lacks(spec *wire.Gang, counts ...*Count) string {
	all := 0
	for _, c := range counts {
		all += c.All
	}
	return spec.Lacks(all, func(task string) (n int) {
		for _, c := range counts {
			n += c.Tasks[task]
		}
		return n
	})
}

// Needed returns how many members must get nodes, in addition to done, to reach the minimum.
func Needed(spec *wire.Gang, done *Count) Count {
	left := Count{All: max(0, spec.Minimum-done.All), Tasks: make(map[string]int, len(spec.Tasks))}
	for task, least := range spec.Tasks {
		left.Tasks[task] = max(0, least-done.Tasks[task])
	}
	return left
}

// Together selects the members of line that are planned together: as many members of each task as
// the map tasks requires, and then the first of the other members, up to the number in the
// parameter most. The result is in the order of line.
func Together[M any](line []M, task func(M) string, most int, tasks map[string]int) []M {
	if len(line) <= most {
		return line
	}
	needed := make(map[string]int, len(tasks))
	for task, n := range tasks {
		needed[task] = n
		most -= n
	}
	var out []M
	for _, m := range line {
		switch t := task(m); {
		case needed[t] > 0:
			needed[t]--
		case most > 0:
			most--
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}
