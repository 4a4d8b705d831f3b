package witness

import (
	"bytes"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/internal/survey/source"
)

// evidence has the inputs of a prediction.
type evidence struct {
	taken  time.Time
	node   *corev1.Node
	report metav1.Object
	pods   []*corev1.Pod
}

// capture is a file in the format of berth snapshot.
type capture struct {
	name string
	data []byte
}

// maxCaptures is the maximum number of captures. If there are more, the oldest are dropped.
const maxCaptures = 20

// gather returns the inputs of the prediction for a pod: the node, its report, its pods, and the
// pod as it was before its Binding. It omits pods that were bound later. The caller holds the lock.
func (w *Witness) gather(pod *corev1.Pod, bound time.Time) *evidence {
	e := &evidence{taken: w.Clock.Now(), node: w.node(pod.Spec.NodeName), report: w.reports[pod.Spec.NodeName].object}
	waiting := *pod
	waiting.Spec.NodeName, waiting.Status = "", corev1.PodStatus{Phase: corev1.PodPending, QOSClass: pod.Status.QOSClass}
	e.pods = append(e.pods, &waiting)
	for _, other := range w.pods.on(pod.Spec.NodeName) {
		if other.UID != pod.UID && !w.book.Later(string(other.UID), bound) {
			e.pods = append(e.pods, other)
		}
	}
	return e
}

// keep makes a capture of the inputs of a wrong prediction. The caller holds the lock.
func (w *Witness) keep(r *shadow.Record, on *evidence) {
	var b bytes.Buffer
	s := source.Snapshot{Taken: on.taken.UTC(), Where: fmt.Sprintf("node %s, when pod %s/%s was bound to it", r.Node, r.Namespace, r.Name), StaleAfter: w.StaleAfter.String()}
	err := s.Add(on.node, on.report, on.pods)
	if err == nil {
		err = s.Write(&b)
	}
	if err != nil {
		w.Logger.Error(err, "The input of a prediction cannot be written", "pod", r.Name)
		return
	}
	name := fmt.Sprintf("%s-%s.berth", r.Result, r.UID)
	if len(w.captures) >= maxCaptures {
		w.captures = w.captures[1:]
	}
	w.captures = append(w.captures, capture{name, b.Bytes()})
	w.book.Captured(r.UID, name)
}

// capture returns the content of a capture, or nil.
func (w *Witness) capture(name string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.captures {
		if c.name == name {
			return c.data
		}
	}
	return nil
}
