package outcome

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/turns"
)

const (
	maxWriting = 4
	// long is the duration above which a write counts as slow, so that its namespace pauses after
	// it.
	long = 100 * time.Millisecond
	// retryPause is the pause of a namespace after the first failed write. It doubles after each
	// further failure to write the same outcome.
	retryPause = 50 * time.Millisecond
	// maxTries is the maximum number of tries to write the outcome of an attempt.
	maxTries = 6
	// quiet is the time for which the Writer holds back the outcome of a waiting pod. Most pods
	// have a node before this time ends.
	quiet = 5 * time.Second
	// requestTimeout is the timeout of one request to the API server.
	requestTimeout = 30 * time.Second
)

// Options are the inputs of a Writer.
type Options struct {
	Client kubernetes.Interface
	// Pods lists the pods as the watch has shown them.
	Pods   corelisters.PodLister
	Clock  clock.WithDelayedExecution
	Logger klog.Logger
}

// Writer writes the results of attempts to place pods. Its methods are safe for concurrent use and
// do not block.
type Writer struct {
	Options

	mu sync.Mutex
	// due has the outcomes to write, by pod. held has the outcomes that WriteLater holds back.
	due, held map[types.UID]*outcome
	// nominated has the pods' nominated nodes, until the watch shows them.
	nominated map[types.UID]string
	// line queues the pods with a due outcome. A namespace has at most one write at a time, and its
	// next write starts only after the pause that follows a write.
	line    turns.Line[types.UID]
	writing int
}

// NewWriter returns a Writer with nothing to write.
func NewWriter(o Options) *Writer {
	return &Writer{Options: o, due: map[types.UID]*outcome{}, held: map[types.UID]*outcome{}, nominated: map[types.UID]string{}, line: turns.Line[types.UID]{Each: 1}}
}

// Write queues the result of an attempt. condition and nominating may be nil. The Writer keeps no
// reference to the pod object.
func (w *Writer) Write(pod *corev1.Pod, condition *corev1.PodCondition, nominating *fwk.NominatingInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, pod.UID)
	if nominating.Mode() == fwk.ModeOverride {
		w.nominate(pod, nominating.NominatedNodeName)
	}
	w.add(&outcome{ref: klog.KObj(pod), uid: pod.UID, condition: condition, nominating: nominating})
	w.start()
}

// nominate stores a nomination until the watch shows it or the pod is gone. The caller holds the
// lock.
func (w *Writer) nominate(pod *corev1.Pod, node string) {
	shown, err := w.Pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || shown.UID != pod.UID || shown.Status.NominatedNodeName == node {
		delete(w.nominated, pod.UID)
		return
	}
	w.nominated[pod.UID] = node
}

// Shown must be called with each version of a pod that the watch shows. It forgets the nomination
// that this version has.
func (w *Writer) Shown(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if node, unshown := w.nominated[pod.UID]; unshown && node == pod.Status.NominatedNodeName {
		delete(w.nominated, pod.UID)
	}
}

// Nominated returns the node to which the last outcome nominates a pod, and whether the watch has
// not shown this nomination yet. If the watch has shown it, or there is none, unshown is false. If
// unshown is true and node is "", the outcome removes the nomination.
func (w *Writer) Nominated(uid types.UID) (node string, unshown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	node, unshown = w.nominated[uid]
	return node, unshown
}

// WriteLater records the result of an attempt to place a pod that only waits, for example for a
// report. If the pod still waits after a pause (the constant quiet), the Writer calls event and
// writes the condition of the pod's last attempt.
func (w *Writer) WriteLater(pod *corev1.Pod, condition *corev1.PodCondition, event func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.held[pod.UID]
	w.held[pod.UID] = &outcome{ref: klog.KObj(pod), uid: pod.UID, condition: condition, event: event}
	if was == nil {
		later.Call(w.Clock, quiet, func() { w.speak(pod.UID) })
	}
}

// speak queues the write of an outcome that WriteLater has held back.
func (w *Writer) speak(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.held[uid]; o != nil {
		delete(w.held, uid)
		w.add(o)
		w.start()
	}
}

// Forget drops everything about a pod that is gone.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.due, uid)
	delete(w.held, uid)
	delete(w.nominated, uid)
}

// add replaces the pod's due outcome, or queues o behind the other outcomes of its namespace. The
// caller holds the lock.
func (w *Writer) add(o *outcome) {
	if was := w.due[o.uid]; was != nil {
		o.follow(was)
		w.due[o.uid] = o
		return
	}
	w.due[o.uid] = o
	w.line.Push(o.ref.Namespace, o.uid)
}

// start begins the next writes, up to maxWriting. The caller holds the lock.
func (w *Writer) start() {
	for w.writing < maxWriting {
		namespace, uid, ok := w.line.Pop()
		if !ok {
			return
		}
		o := w.due[uid]
		if o == nil { // the pod is gone
			w.line.Done(namespace)
			continue
		}
		delete(w.due, uid)
		w.writing++
		go w.do(o)
	}
}

// do writes one outcome. The next write of its namespace may begin after the pause.
func (w *Writer) do(o *outcome) {
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), w.Logger), requestTimeout)
	defer cancel()
	begun := w.Clock.Now()
	err := w.write(ctx, o)
	rest := min(w.Clock.Since(begun), requestTimeout) // the clock may jump
	if rest <= long {
		rest = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing--
	if err != nil {
		rest = max(rest, w.retry(o, err))
	}
	if rest == 0 {
		w.line.Done(o.ref.Namespace)
	} else {
		later.Call(w.Clock, rest, func() { w.rested(o.ref.Namespace) })
	}
	w.start()
}

// retry queues a failed write again, or adds its fields to a newer outcome of the pod, and returns
// the pause before the next write. If there is no newer outcome, retry gives up after maxTries, and
// then returns 0. The caller holds the lock.
func (w *Writer) retry(o *outcome, err error) time.Duration {
	o.tries++
	newer := w.due[o.uid]
	switch {
	case newer != nil:
		newer.follow(o)
	case o.tries == maxTries:
		w.Logger.Info("The outcome of an attempt to place a pod cannot be written", "pod", o.ref, "err", err)
		return 0
	default:
		w.add(o)
	}
	return retryPause << (o.tries - 1)
}

func (w *Writer) rested(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line.Done(namespace)
	w.start()
}
