package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/scheduler"
)

// Sort is the order in which waiting pods are tried. It is kube-scheduler's PrioritySort with two
// exceptions. If a gang has its minimum, its other members come after all pods of their priority,
// as in Volcano. If a pod enters the queue in the first minute of the process and has not been
// tried, it is sorted by the end of the second in which it was created, not by the time when it was
// queued.
//
// A starting scheduler finds all waiting pods at once, in no particular order. A kubelet that
// receives several pods at once admits older pods first (HandlePodAdditions of
// pkg/kubelet/kubelet.go). If the scheduler tried an old pod after younger pods, the old pod could
// take CPUs that were promised to the younger pods. So the old pod would have to wait for reports.
// After the first minute, pods enter the queue in the order of their creation anyway. So the
// exception ends then, and a tenant gains nothing by keeping old pods in reserve.
type Sort struct {
	// started is the end of the first minute of the process.
	started time.Time
	// first names the pod that precedes all others. It is nil in a release that does not need it.
	first *firstPod
	// surplus reports whether a pod's gang already has its minimum; nil means that no gangs exist.
	surplus func(*corev1.Pod) bool
}

// starting is the time after the start of the process for which the exception applies.
const starting = time.Minute

var _ fwk.QueueSortPlugin = Sort{}

// NewSort makes the plugin, which has no arguments. It has the signature of
// frameworkruntime.PluginFactory.
func NewSort(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if err := scheduler.NoArgs(obj); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w: want none", scheduler.SortName, err)
	}
	s := Sort{started: time.Now().Add(starting)}
	if handle != nil {
		shared := handle.SharedInformerFactory()
		s.first = firstPodIn(ctx, shared)
		s.surplus = func(pod *corev1.Pod) bool { // the profile's other plugins do not exist yet
			parts, ours := scheduler.PartsOf(shared)
			return ours && parts.Surplus(pod)
		}
	}
	return s, nil
}

// Name implements fwk.Plugin.
func (Sort) Name() string { return scheduler.SortName }

// waiting has the properties of a queue's entry that Sort compares.
type waiting struct {
	priority int32
	surplus  bool
	since    time.Time
	queued   time.Time
}

func (s Sort) one(pod *corev1.Pod, priority int32, queued time.Time, attempts int) waiting {
	w := waiting{priority: priority, surplus: s.surplus != nil && s.surplus(pod), since: queued, queued: queued}
	// The API server truncates creation times to seconds.
	if created := pod.CreationTimestamp.Add(time.Second); attempts == 0 && queued.Before(s.started) && created.Before(queued) {
		w.since = created
	}
	return w
}

func (w waiting) before(v waiting) bool {
	if w.priority == v.priority && w.surplus != v.surplus {
		return v.surplus
	}
	return cmp.Or(cmp.Compare(v.priority, w.priority), w.since.Compare(v.since), w.queued.Compare(v.queued)) < 0
}
