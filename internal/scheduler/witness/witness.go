package witness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/scheduler/later"
	"github.com/berth-dev/berth/internal/scheduler/nodes"
	"github.com/berth-dev/berth/internal/scheduler/wake"
	"github.com/berth-dev/berth/internal/shadow"
	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// Options are the inputs of a Witness.
type Options struct {
	Client *rest.Config
	// Heartbeats is the namespace of the agents' Leases.
	Heartbeats string
	// StaleAfter and SettleAfter mean the same as the scheduler's arguments of these names.
	StaleAfter, SettleAfter time.Duration
	// Share is the fraction of one CPU that the search for better nodes may use.
	Share  float64
	Clock  clock.WithDelayedExecution
	Logger klog.Logger
}

// Witness watches a cluster. It is safe for concurrent use.
type Witness struct {
	Options
	table   *nodes.Table
	feed    *nodes.Feed
	profile nodes.Profile
	pods    *podStore
	objects corev1listers.NodeLister
	metrics *metricSet
	ready   atomic.Bool
	// told is the UID of the pod for which the current call of seen has called Bound, or "". Only
	// the watch of pods uses it.
	told types.UID

	mu      sync.Mutex
	book    *shadow.Book
	reports map[string]report // the newest report of each node
	// evidence has the inputs of the predictions that wait for an answer, by the pod's UID.
	evidence map[types.UID]*evidence
	captures []capture // oldest first
	budget   budget

	// claimed has the pods whose claims wait to be judged.
	claimed chan claimed
}

// report is what the Witness stores about a node's newest report.
type report struct {
	object  metav1.Object
	mark    nodestate.Mark
	started time.Time // when the kubelet started; zero if the report does not contain the time
	since   uint64    // the revision of the first report after that start
	// off means that the node's clock differs from the clock of this process by more than
	// StaleAfter.
	off bool
	// again means that the newest version of the object repeats the previous report.
	again bool
	// renewed is the time of the newest heartbeat, by the agent's clock.
	renewed time.Time
}

// New returns a Witness that has seen nothing yet.
func New(o Options) *Witness {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	w := &Witness{Options: o, table: nodes.NewTable(o.Clock, o.StaleAfter), metrics: newMetricSet(),
		book: shadow.NewBook(), reports: map[string]report{}, evidence: map[types.UID]*evidence{}, budget: budget{share: o.Share}, claimed: make(chan claimed, maxClaimed)}
	w.pods = newPodStore(w.seen, w.podGone)
	w.profile.Table = w.table
	w.profile.Scoring.FillIn()
	w.feed = nodes.NewFeed(nodes.FeedOptions{
		Table: w.table, Waiters: wake.New(nobody{o.Clock}), SettleAfter: o.SettleAfter, Exists: w.exists, Changed: func() {},
		Logger: o.Logger, Events: silent{}, Metrics: w.metrics, Onlooker: w,
	})
	return w
}

// heartbeats is the maximum interval at which heartbeats are listed.
const heartbeats = 20 * time.Second

// Run watches until ctx ends.
func (w *Witness) Run(ctx context.Context) error {
	core := apiclient.Core(w.Client)
	core.DisableCompression = true // the repeated lists of heartbeats cost less without it
	client, err := kubernetes.NewForConfig(core)
	if err != nil {
		return err
	}
	sources, err := nodes.NewSources(w.Client, client, w.Heartbeats)
	if err != nil {
		return err
	}
	sources.Poll = min(heartbeats, w.StaleAfter/3)
	shared := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(source.Slim))
	objects := shared.Core().V1().Nodes()
	w.objects = objects.Lister()
	known := objects.Informer().HasSynced
	reports := w.feed.Watch(ctx, sources)
	go w.pods.run(ctx, client)
	shared.Start(ctx.Done())
	go w.feed.Sweep(ctx)
	go w.lookAtClaims(ctx, client)
	if cache.WaitForCacheSync(ctx.Done(), w.pods.begun.Load, known, reports) {
		w.table.DoubtSilent()
		w.ready.Store(true)
		go w.table.FollowDemand(ctx, w.node)
	}
	for later.Wait(ctx, w.Clock, time.Minute) {
		w.close(func(b *shadow.Book, now time.Time) []shadow.Record { return b.Expire(now) })
	}
	return nil
}

// Ready reports whether all objects that existed at the start have been read.
func (w *Witness) Ready() bool { return w.ready.Load() }

func (w *Witness) node(name string) *corev1.Node {
	if w.objects == nil {
		return nil
	}
	node, err := w.objects.Get(name)
	if err != nil {
		return nil
	}
	return node
}

func (w *Witness) exists(name string) bool { return w.node(name) != nil }

// View returns the current predictions and their outcomes.
func (w *Witness) View() shadow.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.book.View(w.Clock.Now())
}

func (w *Witness) podGone(pod *corev1.Pod) {
	w.feed.PodGone(pod)
	w.table.Demand.Gone(pod.UID)
	w.closeOne(func(b *shadow.Book, now time.Time) *shadow.Record { return b.Gone(string(pod.UID), now) })
}

// seen records a version of a pod that has a node.
func (w *Witness) seen(pod *corev1.Pod, how arrival) {
	w.answered(pod) // before the feed, so that the record has the reason
	w.told = ""
	w.feed.PodSeen(pod, how == listed || how == inherited)
	w.table.Demand.Seen(pod)
	if how != known && w.told != pod.UID && !ofNode(pod) {
		w.uncounted(pod, how)
	}
	if wire.Admitted(pod) && wire.Ended(pod) { // no later report is expected to list the pod
		w.closeOne(func(b *shadow.Book, now time.Time) *shadow.Record { return b.Gone(string(pod.UID), now) })
	}
}

func (w *Witness) answered(pod *corev1.Pod) {
	uid, written := string(pod.UID), revision(pod)
	w.closeOne(func(b *shadow.Book, now time.Time) *shadow.Record {
		switch {
		case wire.Refused(pod):
			return b.Refused(uid, pod.Status.Reason, written, now)
		case wire.Admitted(pod):
			return b.Admitted(uid, written, now)
		}
		return nil
	})
}

// revision returns the resource version of an object as a number, which is a revision of etcd. It
// returns 0 if the version is not a number.
func revision(o metav1.Object) uint64 {
	at, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return at
}

// ofNode reports whether the pod is a static pod of a node, which no scheduler binds.
func ofNode(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Node" })
}

// uncounted opens a record for a pod that no account has, because nothing is pinned for the pod, it
// cannot be read, the order of its Binding is not known, or its kubelet has already answered. It
// ignores pods whose kubelets had answered before the watch began.
func (w *Witness) uncounted(pod *corev1.Pod, how arrival) {
	answered := wire.Admitted(pod) || wire.Ended(pod)
	if how == inherited && answered {
		return
	}
	ask, err := wire.ReadPod(pod)
	r := w.recordOf(pod, err == nil && ask.Request.Pinnable())
	r.Expected = &shadow.Answer{Outcome: shadow.Admitted, Certainty: wire.Exact.String()}
	why := w.whyNot(pod)
	switch {
	case err != nil:
		why = shadow.Unreadable
	case answered:
		why = shadow.AnsweredFirst
	case how != watched:
		why = shadow.Listed
	case wire.Ending(pod):
		why = shadow.NeverSeen
	case r.Pinned:
		why = shadow.AnsweredFirst // the report with the answer came before the Binding
	}
	if why != "" {
		r.Expected = nil
	}
	w.closeOne(func(b *shadow.Book, _ time.Time) *shadow.Record { return b.Bound(r, why) })
	w.answered(pod)
}

func (w *Witness) recordOf(pod *corev1.Pod, pinned bool) shadow.Record {
	return shadow.Record{Bound: w.Clock.Now(), Pod: shadow.Pod{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Scheduler: pod.Spec.SchedulerName, Pinned: pinned,
	}}
}

// whyNot returns the reason why a prediction about the pod's node cannot be judged, or "".
func (w *Witness) whyNot(pod *corev1.Pod) shadow.Reason {
	node := pod.Spec.NodeName
	n := w.table.Known(node)
	if n == nil {
		return shadow.NoAgent
	}
	if u := w.table.Unusable(n); u != nil && u.Reason != v1alpha1.ReasonAdmissionUnfinished {
		return reasonOf(u)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := w.reports[node]; {
	case r.object == nil:
		return shadow.NoAgent
	case r.started.IsZero():
		return shadow.OlderAgent
	case r.off:
		return shadow.Clocks
	case revision(pod) < r.since: // the first report of this start came after the Binding
		return shadow.KubeletRestarted
	}
	return ""
}

func reasonOf(u *nodestate.Unusable) shadow.Reason {
	switch u.Reason {
	case nodestate.NoReport:
		return shadow.NoAgent
	case nodestate.Silent:
		return shadow.LateAgent
	case nodestate.OtherRelease:
		return shadow.OlderAgent
	}
	return shadow.BadReport
}

var _ nodes.Onlooker = (*Witness)(nil)

// Bound implements nodes.Onlooker.
func (w *Witness) Bound(pod *corev1.Pod, n *nodes.Node, e *ledger.Expectation) {
	w.told = pod.UID
	if ofNode(pod) {
		return // the kubelet started it before the API had it
	}
	r := w.recordOf(pod, true)
	why := w.whyNot(pod)
	r.Expected = expected(e)
	switch {
	case r.Expected != nil:
	case e.Answer.Outcome == ledger.Unreported:
		why = cmp.Or(why, shadow.NoAgent)
	case why == "":
		why, r.Detail = shadow.Undecided, e.Answer.Wait.Text()
		w.Logger.V(2).Info("No prediction", "pod", klog.KObj(pod), "node", n.Name(), "wait", e.Answer.Wait, "census", fmt.Sprintf("%+v", n.Account().View().Census()))
	}
	looked := true
	if why == "" {
		r.Instead, looked = w.elsewhere(pod, n, e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !looked {
		w.book.NotLooked(r.Bound)
	}
	closed := w.book.Bound(r, why)
	if w.finish(closed); (closed == nil || closed.Node != r.Node) && why == "" {
		w.evidence[pod.UID] = w.gather(pod, r.Bound)
	}
}

// expected returns the prediction, or nil if there is none.
func expected(e *ledger.Expectation) *shadow.Answer {
	switch {
	case e.Answer.OK():
		a := &shadow.Answer{Outcome: shadow.Admitted, Certainty: wire.VerdictOnly.String(), NUMANodes: e.Answer.Verdict.NUMA.String()}
		if e.Answer.Exact {
			a.Certainty, a.Containers = wire.Exact.String(), shadow.Decided(&e.Decision)
		}
		return a
	case e.Answer.Outcome == ledger.Refused:
		return &shadow.Answer{Outcome: shadow.Rejected, Reason: e.Answer.Verdict.Reason.String()}
	case len(e.Either) > 0:
		return &shadow.Answer{Outcome: shadow.EitherWay}
	}
	return nil
}

// Foreseen implements nodes.Onlooker.
func (w *Witness) Foreseen(n *nodes.Node, e *ledger.Foreseen) {
	w.mu.Lock()
	r := w.book.Undecided(e.UID)
	w.mu.Unlock()
	if r == nil {
		return
	}
	obj, there, err := w.pods.GetByKey(r.Namespace + "/" + r.Name)
	if err != nil || !there {
		return
	}
	pod := obj.(*corev1.Pod)
	if string(pod.UID) != r.UID || w.whyNot(pod) != "" {
		return
	}
	r.Expected = expected(&e.Expectation)
	var looked bool
	r.Instead, looked = w.elsewhere(pod, n, &e.Expectation)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.book.Foreseen(r) {
		return
	}
	if !looked {
		w.book.NotLooked(w.Clock.Now())
	}
	w.evidence[pod.UID] = w.gather(pod, r.Bound)
}

// Settled implements nodes.Onlooker.
func (w *Witness) Settled(node string, o *ledger.PromiseOutcome) {
	w.hasClaims(node, o)
	w.closeOne(func(b *shadow.Book, now time.Time) *shadow.Record { return b.Settled(o, now) })
}

// Alive implements nodes.Onlooker. Other clients may also write the agent's objects, for example
// their labels. Such a write does not show that the agent is alive.
func (w *Witness) Alive(node string, by metav1.Object) {
	w.mu.Lock()
	r := w.reports[node]
	again := r.again
	if lease, ok := by.(*coordinationv1.Lease); ok {
		again = lease.Spec.RenewTime.Time.Equal(r.renewed)
		r.renewed = lease.Spec.RenewTime.Time
	}
	if r.object != nil {
		w.reports[node] = r
	}
	w.mu.Unlock()
	if again {
		return
	}
	w.close(func(b *shadow.Book, now time.Time) []shadow.Record { return b.Alive(node, revision(by), now) })
}

// Reported implements nodes.Onlooker.
func (w *Witness) Reported(o metav1.Object, r *nodestate.Reading) {
	var doubt shadow.Reason
	next := report{object: o, mark: r.Mark}
	if r.Report != nil {
		next.started = r.Report.KubeletStarted
		next.off = w.differs(r.Report.Observed)
	}
	w.mu.Lock()
	before := w.reports[r.Node]
	next.renewed = before.renewed
	if next.since = revision(o); before.object != nil && before.started.Equal(next.started) {
		next.since = before.since
	}
	if next.again = before.object != nil && next.mark == before.mark; next.again {
		next.off = before.off // an old report may be written again at any time
	}
	w.reports[r.Node] = next
	w.mu.Unlock()
	switch {
	case r.Report == nil:
		doubt = reasonOf(r.Unusable)
	case next.started.IsZero():
		doubt = shadow.OlderAgent
	case next.off:
		doubt = shadow.Clocks
	case !before.started.IsZero() && !before.started.Equal(next.started):
		doubt = shadow.KubeletRestarted
	default:
		return
	}
	w.close(func(b *shadow.Book, now time.Time) []shadow.Record { return b.Doubt(r.Node, doubt, now) })
}

// ReportGone implements nodes.Onlooker.
func (w *Witness) ReportGone(node string) {
	w.mu.Lock()
	delete(w.reports, node)
	w.mu.Unlock()
	w.close(func(b *shadow.Book, now time.Time) []shadow.Record { return b.Doubt(node, shadow.NoAgent, now) })
}

// differs reports whether the clock of a report's node differs from the clock of this process by
// more than StaleAfter. A report from before the start of this process may have any age.
func (w *Witness) differs(observed time.Time) bool {
	age := w.Clock.Now().Sub(observed)
	return age < -w.StaleAfter || age > w.StaleAfter && w.ready.Load()
}

// close calls the function do with the book and the time, and counts the closed records in its
// result.
func (w *Witness) close(do func(*shadow.Book, time.Time) []shadow.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range do(w.book, w.Clock.Now()) {
		w.finish(&r)
	}
}

func (w *Witness) closeOne(do func(*shadow.Book, time.Time) *shadow.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(do(w.book, w.Clock.Now()))
}

// finish counts a closed record unless it is nil. If the prediction was wrong, finish keeps the
// inputs of the prediction. The caller holds the lock.
func (w *Witness) finish(r *shadow.Record) {
	if r == nil {
		return
	}
	w.metrics.count(r)
	on := w.evidence[types.UID(r.UID)]
	delete(w.evidence, types.UID(r.UID))
	if !r.Result.Mistaken() {
		return
	}
	w.Logger.Info("A prediction was wrong", "pod", klog.KRef(r.Namespace, r.Name), "node", r.Node, "result", r.Result,
		"expected", fmt.Sprintf("%+v", r.Expected), "got", fmt.Sprintf("%+v", r.Got))
	if on != nil {
		w.keep(r, on)
	}
}

// nobody is a wake.Edge without pods: shadow mode has no waiting pods.
type nobody struct{ clock clock.WithDelayedExecution }

func (n nobody) Now() time.Time                   { return n.clock.Now() }
func (n nobody) After(d time.Duration, do func()) { later.Call(n.clock, d, do) }
func (nobody) Activate([]wake.Pod)                {}

// silent is an event recorder that writes no events.
type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
