package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// Run returns the UID of the controller that created a pod, or "". The UID distinguishes successive
// gangs of one name, such as the gangs of a CronJob: ended pods of an earlier gang may still exist.
func Run(pod *corev1.Pod) types.UID {
	if c := metav1.GetControllerOfNoCopy(pod); c != nil {
		return c.UID
	}
	return ""
}

// Runs counts the pods of a gang by run. The zero value has no pods.
type Runs struct {
	of map[types.UID]*run
	// live counts runs with pods that have not ended.
	live int
}

// run has the number of all pods of a run, and the number of its pods that have not ended.
type run struct {
	all, live int
	// began is the earliest creation time of the run's known pods.
	began time.Time
}

// RunPart has the facts about a pod that Runs counts. RunPart is comparable.
type RunPart struct {
	run   types.UID
	began int64 // the pod's creation time in Unix seconds
	live  bool
}

// RunPartOf returns the RunPart of a pod.
func RunPartOf(pod *corev1.Pod) RunPart {
	return RunPart{Run(pod), pod.CreationTimestamp.Unix(), !wire.Ended(pod)}
}

// Add adds a pod if n is 1, and removes the pod if n is -1.
func (r *Runs) Add(p RunPart, n int) {
	if r.of == nil {
		r.of = map[types.UID]*run{}
	}
	one, began := r.of[p.run], time.Unix(p.began, 0)
	if one == nil {
		one = &run{began: began}
		r.of[p.run] = one
	}
	if began.Before(one.began) {
		one.began = began
	}
	was := one.live > 0
	if one.all += n; p.live {
		one.live += n
	}
	switch is := one.live > 0; {
	case is && !was:
		r.live++
	case was && !is:
		r.live--
	}
	if one.all == 0 {
		delete(r.of, p.run)
	}
}

// Live returns the number of runs with pods that have not ended.
func (r *Runs) Live() int { return r.live }

// Has reports whether there are pods of a run.
func (r *Runs) Has(id types.UID) bool { return r.of[id] != nil }

// Former reports whether a pod of the gang belongs to a former run: all pods of its run have ended,
// and the pod had ended before any run with living pods began. If all runs have ended, none of them
// is a former run.
func (r *Runs) Former(pod *corev1.Pod) bool {
	if own := r.of[Run(pod)]; r.live == 0 || own != nil && own.live > 0 || !wire.Ended(pod) {
		return false
	}
	finished := wire.Finished(pod)
	for _, one := range r.of {
		if one.live > 0 && !finished.Before(one.began) {
			return false
		}
	}
	return true
}

// RunsOf returns the runs of a gang's pods.
func RunsOf(pods []*corev1.Pod) (r Runs) {
	for _, pod := range pods {
		r.Add(RunPartOf(pod), 1)
	}
	return r
}
