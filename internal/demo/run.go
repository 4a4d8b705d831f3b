package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/clip"
	"github.com/berth-dev/berth/internal/demo/places"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

const (
	// maxAgain limits how often the Runner creates a refused pod again, as a controller would.
	maxAgain = 2
	// againAfter is the delay before a refused pod is created again.
	againAfter = time.Second
	// quiet is the time without any event that must pass before a run counts as settled.
	quiet = 4 * time.Second
	// patience is the default of Runner.Patience. It is longer than kube-scheduler's maximum
	// back-off, 10 s.
	patience = 15 * time.Second
	// lateOnNode is the time after its Binding within which a pod should run. A longer time means a
	// busy machine or an error.
	lateOnNode = 10 * time.Second
	// tick is the interval of the runner's clock.
	tick = 20 * time.Millisecond
)

// Progress is called with the state of a run at every tick, so it must return quickly.
type Progress func(elapsed time.Duration, r *Report, pending int)

// Runner runs a workload on a cluster and observes the pods.
type Runner struct {
	Cluster  *Cluster
	Workload Workload
	// Predicts is true if every pod that gets exclusive resources must have the scheduler's
	// decision in an annotation.
	Predicts bool
	// Patience is the time without events after which a waiting pod counts as stalled if a node has
	// room for it; 0 means 15 s. After the last pod of the workload is created, the run has four
	// times Patience to settle.
	Patience time.Duration
	// Change, if not nil, changes each pod before its creation.
	Change   func(*corev1.Pod)
	Progress Progress

	ctx    context.Context
	places *places.Places
	idle   places.Mean // of the number of stranded devices
	// news has functions that Run calls. Each handles an event of the watch or the result of a
	// request, so that only Run's goroutine changes the Runner.
	news     chan func() error
	requests requests
	report   *Report
	begun    time.Time
	live     map[string]*livePod // by object name
	due      []again             // refused pods that must be created again
	touched  time.Time           // when a pod was last created, started, refused or deleted
}

// livePod is the API object of a pod of the workload. If a kubelet refuses the object, another
// livePod replaces it.
type livePod struct {
	want    *Pod
	attempt int
	wanted  time.Time   // when the workload first asked for it
	created time.Time   // later than wanted if kubelets refused earlier objects
	bound   time.Time   // when its node was first seen; zero before
	expires time.Time   // when to delete it; zero means never
	last    *corev1.Pod // as last seen in the watch; nil before
	// settled means that the pod has been Running and its holdings were read, or that it has
	// Failed.
	settled bool
	// asked means that a request to delete the pod is in progress. The field deleting means that
	// the API server has accepted the request.
	asked, deleting bool
}

type again struct {
	want    *Pod
	attempt int
	wanted  time.Time
	at      time.Time
}

// Run creates and deletes the pods of the workload. It returns the report when no more changes are
// expected, or when the time for them is over.
func (r *Runner) Run(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	clock := time.NewTicker(tick)
	defer clock.Stop()
	next := 0
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case handle := <-r.news:
			if err := handle(); err != nil {
				return nil, err
			}
		case <-clock.C:
			if err := r.catchUp(); err != nil {
				return nil, err
			}
			n, err := r.step(next)
			if err != nil {
				return nil, err
			}
			if next = n; next == len(r.Workload.Pods) && r.settled() {
				return r.report, r.conclude()
			}
		}
	}
}

// catchUp calls all functions that wait in news. It runs before each step, so that slow steps do
// not delay the events.
func (r *Runner) catchUp() error {
	for {
		select {
		case handle := <-r.news:
			if err := handle(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// tell makes Run call handle.
func (r *Runner) tell(handle func() error) {
	select {
	case r.news <- handle:
	case <-r.ctx.Done():
	}
}

func (r *Runner) prepare(ctx context.Context) error {
	r.ctx, r.report, r.live = ctx, newReport(), map[string]*livePod{}
	r.news = make(chan func() error, 4096)
	r.startRequests()
	if err := r.readNodes(); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := r.Cluster.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.watch(ctx); err != nil {
		return err
	}
	r.begun = time.Now()
	r.touched = r.begun
	return nil
}

func (r *Runner) readNodes() (err error) {
	nodes := map[string]places.Node{}
	for _, p := range r.Cluster.Nodes {
		spec, err := p.Dir.ReadSpec()
		if err != nil {
			return err
		}
		nodes[p.Name] = places.Node{Machine: spec.Machine, KubeletConfig: spec.KubeletConfig, Plugins: spec.Plugins}
	}
	r.places, err = places.New(gpuResource, cpusPerGPU, nodes)
	return err
}

func (r *Runner) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(r.Cluster.Client, 0, informers.WithNamespace(Namespace))
	see := func(obj any) { r.tell(func() error { return r.see(obj.(*corev1.Pod)) }) }
	handler, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) }, // names are not reused, so both are the same pod
		DeleteFunc: func(obj any) {
			if pod, ok := apiclient.Last(obj).(*corev1.Pod); ok {
				r.tell(func() error { r.gone(pod); return nil })
			}
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return ctx.Err()
	}
	return nil
}

// step creates the pods that are due and deletes the pods whose life is over. It takes the index of
// the first pod of the workload that has not been created yet, and returns the new index.
func (r *Runner) step(next int) (int, error) {
	now := time.Now()
	elapsed := now.Sub(r.begun)
	for ; next < len(r.Workload.Pods) && r.Workload.Pods[next].At <= elapsed; next++ {
		r.create(again{want: &r.Workload.Pods[next], wanted: now})
	}
	for len(r.due) > 0 && r.due[0].at.Before(now) {
		r.create(r.due[0])
		r.due = r.due[1:]
	}
	for name, p := range r.live {
		if !p.expires.IsZero() && p.expires.Before(now) {
			r.remove(name, p)
		}
	}
	r.avoidable(r.places.Judge(now, false))
	if r.Progress != nil {
		r.Progress(elapsed, r.report, r.pending())
	}
	return next, r.Cluster.Ended() // otherwise pods of a dead node would wait forever
}

// create creates a pod. The pod's times count from when the request is sent, not from when it is
// queued.
func (r *Runner) create(next again) {
	want, name := next.want, next.want.Name
	if next.attempt > 0 {
		name += "-r" + strconv.Itoa(next.attempt)
	}
	p := &livePod{want: want, attempt: next.attempt, wanted: next.wanted, created: time.Now()}
	r.live[name] = p
	r.report.Pods++
	r.touched = p.created
	var sent time.Time
	r.ask(r.requests.creates, request{
		send: func() error {
			sent = time.Now()
			pod := want.Object(name)
			if r.Change != nil {
				r.Change(pod)
			}
			_, err := r.Cluster.Client.CoreV1().Pods(Namespace).Create(r.ctx, pod, metav1.CreateOptions{})
			return err
		},
		then: func(err error) error {
			p.created = sent
			if p.attempt == 0 {
				p.wanted = sent
			}
			if want.Life > 0 {
				p.expires = sent.Add(want.Life)
			}
			r.touched = time.Now()
			return err
		},
	})
}

// remove deletes a pod if the pod waits for a node or has settled. It does not delete other bound
// pods, because their assignments must be checked first.
func (r *Runner) remove(name string, p *livePod) {
	if p.asked || p.deleting || p.last == nil || p.last.Spec.NodeName != "" && !p.settled {
		return
	}
	opts := metav1.DeleteOptions{}
	if p.last.Spec.NodeName == "" {
		// With this precondition the API server does not delete the pod if it has been bound since.
		version := p.last.ResourceVersion
		opts.Preconditions = &metav1.Preconditions{ResourceVersion: &version}
	}
	p.asked = true
	r.ask(r.requests.deletes, request{
		send: func() error { return r.Cluster.Client.CoreV1().Pods(Namespace).Delete(r.ctx, name, opts) },
		then: func(err error) error {
			p.asked = false
			switch {
			case apierrors.IsConflict(err):
				return nil
			case err == nil, apierrors.IsNotFound(err):
				p.deleting = true
				r.touched = time.Now()
				return nil
			}
			return err
		},
	})
}

func (r *Runner) gone(pod *corev1.Pod) {
	if r.live[pod.Name] == nil {
		return
	}
	r.places.Gone(pod, time.Now())
	r.strand()
	delete(r.live, pod.Name)
	r.touched = time.Now()
}

func (r *Runner) see(pod *corev1.Pod) error {
	p := r.live[pod.Name]
	if p == nil {
		return nil
	}
	p.last = pod
	if p.bound.IsZero() && pod.Spec.NodeName != "" {
		p.bound = time.Now()
	}
	r.places.Bound(pod, time.Now())
	if p.settled {
		return nil
	}
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return r.ran(p)
	case corev1.PodFailed:
		return r.failed(p)
	}
	return nil
}

func (r *Runner) ran(p *livePod) error {
	p.settled = true
	r.touched = time.Now()
	r.report.Running++
	r.timed(p)
	node, err := r.Cluster.Node(p.last.Spec.NodeName)
	if err != nil {
		return fmt.Errorf("pod %s: %w", p.last.Name, err)
	}
	held, err := assigned(node, p.last)
	if err != nil {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	numa, sockets := r.places.Ran(p.last, held, r.touched)
	r.strand()
	if p.deleting {
		return nil // the kubelet may have freed its resources already
	}
	if numa > 0 {
		r.report.NUMANodesPerPod[strconv.Itoa(numa)]++
	}
	if sockets > 1 {
		r.report.CrossSocket++
	}
	r.judge(p, held, numa > 0)
	return nil
}

func (r *Runner) timed(p *livePod) {
	t, onNode := &r.report.times, r.touched.Sub(p.bound)
	t.toRunning[p.want.Name] = r.touched.Sub(p.wanted)
	t.refused = append(t.refused, p.created.Sub(p.wanted))
	t.toNode = append(t.toNode, p.bound.Sub(p.created))
	t.onNode = append(t.onNode, onNode)
	if onNode > lateOnNode {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("%s on %s: it started to run %s after its Binding%s",
			p.last.Name, p.last.Spec.NodeName, onNode.Round(time.Second), r.kubeletLog(p.last)))
	}
}

func (r *Runner) judge(p *livePod, held *placement.PodAllocation, holds bool) {
	verdict := judge(p.last, held)
	if !verdict.made && r.Predicts && holds {
		verdict.wrong = "no decision, though it holds something exclusively"
	}
	if verdict.made {
		r.report.Predicted++
	}
	if verdict.exact {
		r.report.Exact++
	}
	if verdict.wrong != "" {
		r.report.Mispredicted++
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("%s on %s: %s", p.last.Name, p.last.Spec.NodeName, verdict.wrong))
	}
}

// avoidable adds the results of Judge to the report: pods that another node would have admitted on
// fewer NUMA nodes, and GPUs that were stranded without need.
func (r *Runner) avoidable(suspects []places.Suspect) {
	for _, s := range suspects {
		does := "uses " + wire.Counted(s.NUMA, "NUMA node")
		if s.Needs < s.NUMA {
			r.report.AvoidablySplit++
		} else {
			r.report.AvoidablyStranded += s.Strands
			does = "leaves " + wire.Counted(s.Strands, "GPU") + " without CPUs"
		}
		if r.Predicts {
			r.report.Notes = append(r.report.Notes, fmt.Sprintf("%s on %s: it %s, but %s had room for the pod on %s", s.Pod.Name, s.Pod.Spec.NodeName, does, s.On, wire.Counted(s.Needs, "NUMA node")))
		}
	}
}

// failed counts a refusal and acts as a controller does: it deletes the pod and creates another, up
// to maxAgain times.
func (r *Runner) failed(p *livePod) error {
	p.settled = true
	r.touched = time.Now()
	r.places.Gone(p.last, r.touched)
	r.report.Rejected[p.last.Status.Reason]++
	if r.Predicts {
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("%s on %s: refused: %s: %s", p.last.Name, p.last.Spec.NodeName, p.last.Status.Reason, p.last.Status.Message))
	}
	if p.attempt < maxAgain {
		r.due = append(r.due, again{p.want, p.attempt + 1, p.wanted, r.touched.Add(againAfter)})
	}
	r.remove(p.last.Name, p)
	return nil
}

// pending counts the pods that have not run, failed or been deleted.
func (r *Runner) pending() (n int) {
	for _, p := range r.live {
		if !p.settled && !p.deleting {
			n++
		}
	}
	return n
}

// settled reports whether no more changes are expected, or the time for them is over.
func (r *Runner) settled() bool {
	over := time.Since(r.begun) - r.Workload.Length()
	return over > 4*r.patience() || r.calm()
}

func (r *Runner) patience() time.Duration { return cmp.Or(r.Patience, patience) }

// calm reports whether nothing is in progress: no request, and no start, end or placement of a pod.
func (r *Runner) calm() bool {
	if len(r.due) > 0 || r.requests.underWay > 0 || time.Since(r.touched) < quiet {
		return false
	}
	for _, p := range r.live {
		if !p.expires.IsZero() && !p.deleting || p.last != nil && p.last.Spec.NodeName != "" && !p.settled {
			return false
		}
		if time.Since(r.touched) < r.patience() && p.waits() && r.places.Room(p.last, r.touched) != "" {
			return false
		}
	}
	return true
}

func (p *livePod) waits() bool {
	return !p.settled && !p.deleting && p.last != nil && p.last.Spec.NodeName == ""
}

// strand updates the mean number of stranded devices while pods are created.
func (r *Runner) strand() {
	if at := time.Since(r.begun); at < r.creation() {
		r.idle.Set(r.places.Stranded(), at)
	}
}

// creation is the time in which pods are created, plus a second, so that it is never zero.
func (r *Runner) creation() time.Duration { return r.Workload.Length() + againAfter }

// maxWaitNotes limits the number of notes about pods that wait at the end of a run.
const maxWaitNotes = 10

// wait counts the pods that wait at the end, and explains why some of them wait. It counts a pod as
// stalled only if a node has room for it and the run became calm. Before that, the scheduler might
// still have placed the pod.
func (r *Runner) wait() {
	r.report.Pending = r.pending()
	r.report.OutOfTime = !r.calm()
	var notes []string
	for name, p := range r.live {
		if !p.settled && !p.deleting && p.last != nil {
			notes = append(notes, name+" waits: "+r.whyWaiting(p))
		}
	}
	slices.Sort(notes)
	if more := len(notes) - maxWaitNotes; more > 0 {
		notes = append(notes[:maxWaitNotes], fmt.Sprintf("and %d more wait", more))
	}
	r.report.Notes = append(r.report.Notes, notes...)
}

// whatKubeletSays returns why the first waiting container of a bound pod waits. It returns "" if
// the kubelet has reported no waiting container.
func whatKubeletSays(s *corev1.PodStatus) string {
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		if w := c.State.Waiting; w != nil {
			return fmt.Sprintf(": container %s: %s: %s", c.Name, w.Reason, w.Message)
		}
	}
	return ""
}

// kubeletLog returns the last lines that the kubelet of a bound pod logged about the pod. It
// returns "" if there are no such lines.
func (r *Runner) kubeletLog(pod *corev1.Pod) string {
	const most = 4 << 20
	node, err := r.Cluster.Node(pod.Spec.NodeName)
	if err != nil {
		return ""
	}
	return linesAbout(string(node.LogTail(most)), pod)
}

// linesAbout returns the last lines of a log that name a pod, each on its own line.
func linesAbout(log string, pod *corev1.Pod) string {
	const lines, columns = 12, 300
	var about []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, pod.Name) || strings.Contains(line, string(pod.UID)) {
			about = append(about, "\n    "+clip.Text(strings.TrimSpace(line), columns))
		}
	}
	return strings.Join(about[max(0, len(about)-lines):], "")
}

// whyWaiting returns the reason why a pod waits. It counts the pod as stalled if a node has room
// for it, unless the run is out of time.
func (r *Runner) whyWaiting(p *livePod) string {
	if on := p.last.Spec.NodeName; on != "" {
		return "it is bound to " + on + ", and does not run yet" + whatKubeletSays(&p.last.Status) + r.kubeletLog(p.last)
	}
	why := "no scheduler has looked at it"
	for _, c := range p.last.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Message != "" {
			why = c.Message
		}
	}
	if on := r.places.Room(p.last, r.touched); on != "" && !r.report.OutOfTime {
		r.report.Stalled++
		why = "although " + on + " has room: " + why
	}
	return why
}

func (r *Runner) conclude() (err error) {
	r.avoidable(r.places.Judge(time.Now(), true))
	r.report.StrandedDevices = r.idle.Over(r.creation())
	slices.Sort(r.report.Notes)
	r.wait()
	r.report.finish()
	if r.Predicts && len(r.Cluster.schedulers) > 0 {
		r.report.Contended, err = r.Cluster.contended()
	}
	return err
}
