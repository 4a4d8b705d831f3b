package gangs

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// Run is what a pod was started by: the UID of its controller; "" for none. Gangs of one name may
// follow one another, as those of a CronJob do, and pods that have ended are left of the last one.
func Run(pod *corev1.Pod) types.UID {
	if c := metav1.GetControllerOfNoCopy(pod); c != nil {
		return c.UID
	}
	return ""
}

// Former returns what says which of a gang's pods are of former runs: they had ended before any of
// those was created that have not, and none of these is of their run. Where all have ended, none
// is.
func Former(pods []*corev1.Pod) func(*corev1.Pod) bool {
	runs, first := map[types.UID]bool{}, time.Time{}
	for _, pod := range pods {
		if wire.Ended(pod) {
			continue
		}
		runs[Run(pod)] = true
		if created := pod.CreationTimestamp.Time; len(runs) == 1 && first.IsZero() || created.Before(first) {
			first = created
		}
	}
	return func(pod *corev1.Pod) bool {
		return len(runs) > 0 && wire.Ended(pod) && !runs[Run(pod)] && wire.Finished(pod).Before(first)
	}
}
