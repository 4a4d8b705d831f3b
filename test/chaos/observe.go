package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/cli"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/obeyed"
	"github.com/berth-dev/berth/test/trial"
)

// watched is what is known about a pod.
type watched struct {
	pod     *corev1.Pod
	ran     bool
	refused bool
	judged  bool
	gone    bool
	foreign bool
	// bound and ended are when it was first seen to be on its node, and to be over or gone.
	bound, ended time.Time
	// excuse says why its promise need not have been kept; "" when it must.
	excuse string
}

// holding is what a pod has been seen to hold in the checkpoints of a node.
type holding struct {
	node  string
	first time.Time
	last  time.Time
	// left is the time from which the checkpoints have had no CPUs of the pod; zero: they have
	// some, or never had.
	left  time.Time
	alloc placement.PodAllocation
}

// observer sees pods, reports and checkpoints and notes what breaks a promise.
type observer struct {
	cluster *cluster
	book    *book

	mu       sync.Mutex
	pods     map[types.UID]*watched
	holdings map[string]*holding  // by pod UID; kept when the pod has left
	pinned   map[string][]string  // by node: the UIDs of pods that had CPUs in the checkpoints at the last look
	whole    map[string]bool      // gangs that were
	returned map[string]time.Time // by node: when a pod was last admitted again (see forgotten)
	reports  map[string]*v1alpha1.NodeTopology
	listed   map[string]int64 // by pod UID: the first report that has it
	tally    tally
	leader   string // the scheduler that was last seen to lead
	// decided are the decisions of all Bindings, for nodes that obey.
	decided obeyed.Decisions
	// store has the pods of the watch. It is never behind what podTold is told.
	store corelisters.PodLister
}

// tally counts.
type tally struct {
	pods, ran                      int
	exact, exactDisturbed, verdict int
	unseen, differedDisturbed      int
	refusedAgain, refusedUnplugged int
	reports, checkpoints, notReady int
	foreign, foreignRefused        int
	refusedContended               int
	refusedUnswept                 int
	readmitted, refusedReturned    int
	differedContended              int
	differedVanished, torn         int
	outcomes                       map[string]int // what the scheduler itself says about promises that were not kept
	leaders                        int
	gangs                          int // that were whole
	obeyed                         int // pods that ran on nodes where Berth decides, by a decision
	looks                          int // at their cgroups
	attempts, accepted             int // of the tenant's requests
}

func newObserver(c *cluster, b *book) *observer {
	return &observer{
		cluster: c, book: b, pods: map[types.UID]*watched{}, reports: map[string]*v1alpha1.NodeTopology{}, listed: map[string]int64{},
		holdings: map[string]*holding{}, pinned: map[string][]string{}, returned: map[string]time.Time{}, whole: map[string]bool{},
		tally: tally{outcomes: map[string]int{}}, decided: obeyed.Decisions{},
	}
}

// start watches until ctx ends.
func (o *observer) start(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(o.cluster.client, 0)
	o.store = factory.Core().V1().Pods().Lister()
	pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(trial.Handler(o.seePod, o.podGone))
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(o.cluster.admin)
	if err != nil {
		return err
	}
	dynamics := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	reports, err := dynamics.ForResource(v1alpha1.NodeTopologies).Informer().AddEventHandler(trial.Handler(o.seeReport, func(*unstructured.Unstructured) {}))
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	dynamics.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, reports.HasSynced) {
		return ctx.Err()
	}
	for i := range o.cluster.specs {
		if spec := &o.cluster.specs[i]; spec.NRI {
			go o.watchCgroups(ctx, spec)
		} else {
			go o.watchCheckpoints(ctx, spec)
		}
	}
	go o.watchLeader(ctx)
	return nil
}

func (o *observer) seePod(pod *corev1.Pod) { o.podTold(pod, false) }

func (o *observer) podGone(pod *corev1.Pod) { o.podTold(pod, true) }

// podTold takes in what the API says about a pod, or that it was the last.
func (o *observer) podTold(pod *corev1.Pod, gone bool) {
	asked := time.Now()
	o.lookFor(pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.watchedOf(pod)
	w.see(pod, gone, asked)
	o.decided.Note(pod)
	o.seeGang(pod)
	switch phase := pod.Status.Phase; {
	case phase == corev1.PodFailed && pod.Status.Reason != "" && !w.refused:
		w.refused = true
		o.takeNeighbours(w)
		o.refusal(w)
	case phase == corev1.PodRunning || phase == corev1.PodSucceeded:
		if !w.ran {
			w.ran = true
			o.tally.ran++
		}
		if !w.judged {
			o.judge(w, asked)
		}
	}
}

// watchedOf returns what is known about the pod, and knows it from now on. The caller holds mu.
func (o *observer) watchedOf(pod *corev1.Pod) *watched {
	w := o.pods[pod.UID]
	if w == nil {
		w = &watched{foreign: isForeign(pod)}
		o.pods[pod.UID] = w
		o.tally.pods++
		if w.foreign {
			o.tally.foreign++
		}
	}
	return w
}

// takeNeighbours takes in the pods of others that the store has on w's node, before w is judged:
// after a break of the watch client-go reports what has changed in no order. The caller holds mu.
func (o *observer) takeNeighbours(w *watched) {
	all, err := o.store.List(labels.Everything())
	if err != nil {
		return // a store in memory does not fail
	}
	for _, pod := range all {
		if pod.Spec.NodeName == w.pod.Spec.NodeName && isForeign(pod) {
			o.watchedOf(pod).see(pod, false, time.Now())
		}
	}
}

// see takes in what the API says about the pod.
func (w *watched) see(pod *corev1.Pod, gone bool, now time.Time) {
	w.pod, w.gone = pod, gone
	if w.bound.IsZero() && pod.Spec.NodeName != "" {
		w.bound = now
	}
	if over := gone || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded; over && w.ended.IsZero() {
		w.ended = now
	}
}

// lookFor makes sure that what a pod holds that runs has been seen, and who holds what when one was
// refused.
func (o *observer) lookFor(pod *corev1.Pod) {
	if phase := pod.Status.Phase; phase != corev1.PodRunning && phase != corev1.PodFailed {
		return
	}
	for i := range o.cluster.specs {
		if spec := &o.cluster.specs[i]; spec.Name == pod.Spec.NodeName && !spec.NRI {
			o.look(spec)
		}
	}
}

// afterRestart is how long a kubelet that has come back may lack what it knew: its device plugins
// register again.
const afterRestart = 20 * time.Second

// refusal tells apart a refusal by a kubelet that has restarted.
func (o *observer) refusal(w *watched) {
	node, now := w.pod.Spec.NodeName, time.Now()
	h := o.holdings[string(w.pod.UID)]
	died, restarted := o.book.lastKill("node-" + node)
	switch {
	case w.foreign:
		o.tally.foreignRefused++
	case (w.ran || h != nil && h.first.Before(restarted)) && !restarted.IsZero():
		w.excuse = "the kubelet has restarted"
		o.tally.refusedAgain++
	case asksForGPU(w.pod) && now.Sub(restarted) < afterRestart:
		w.excuse = "the plugin had not registered again"
		o.tally.refusedUnplugged++
	case now.Sub(restarted) < afterRestart && o.unswept(node):
		w.excuse = "the kubelet had not cleared away what ended pods held"
		o.tally.refusedUnswept++
		o.book.note(fmt.Sprintf("node %s refused pod %s after its restart, before it had cleared away what ended pods held", node, w.pod.Name))
	case now.Sub(restarted) < afterRestart && o.returned[node].After(died):
		w.excuse = "a pod came back that the kubelet had let go of"
		o.tally.refusedReturned++
	case o.contended(w, now):
		o.tally.refusedContended++
	default:
		o.book.violate(fmt.Sprintf("node %s refused pod %s: %s: %s", node, w.pod.Name, w.pod.Status.Reason, w.pod.Status.Message), node, o.evidence(w)...)
	}
}

// unswept says whether pods that had ended were still in the checkpoints when the node's kubelet
// was last killed. The kubelet that comes back admits its first pods before it clears them away:
// pkg/kubelet/kubelet.go calls sources ready after it has handled their first additions, and the
// managers' removeStaleState waits for that. The caller holds mu.
func (o *observer) unswept(node string) bool {
	died, _ := o.book.lastKill("node-" + node)
	for uid, h := range o.holdings {
		w := o.pods[types.UID(uid)]
		if h.node == node && !h.last.Before(died.Add(-2*checkpointPoll)) && (w == nil || !w.ended.IsZero() && w.ended.Before(died.Add(recovery))) {
			return true
		}
	}
	return false
}

func asksForGPU(pod *corev1.Pod) bool {
	_, ok := pod.Spec.Containers[0].Resources.Limits[gpuResource]
	return ok
}

// judge compares an exact placement with what has been seen in the checkpoints. The pod runs, so
// that its admission is over: a look at the checkpoints since asked shows all it holds, unless it
// has left.
func (o *observer) judge(w *watched, asked time.Time) {
	p, found, err := wire.ReadPlacement(w.pod)
	if err != nil {
		o.book.violate("placement of pod "+w.pod.Name+": "+err.Error(), w.pod.Spec.NodeName, o.evidence(w)...)
	}
	w.judged = true
	h := o.holdings[string(w.pod.UID)]
	switch {
	case h == nil && found && o.obeys(w.pod.Spec.NodeName): // its cgroups are watched
		o.tally.obeyed++
		return
	case h == nil && found:
		if differ(p.Decision.Containers, &placement.PodAllocation{}) != "" {
			o.tally.unseen++
		}
		return
	case !found && h != nil && o.cluster.fraud != fraudStock && !w.foreign:
		o.book.violate("pod "+w.pod.Name+" holds something exclusively and carries no placement", w.pod.Spec.NodeName, o.evidence(w)...)
		return
	case !found:
		return
	case p.Certainty != wire.Exact:
		o.tally.verdict++
		return
	}
	posted := o.posted(w, h.first)
	disturbed := o.book.disturbed(h.node, posted, h.first)
	wrong := differ(p.Decision.Containers, &h.alloc)
	if wrong != "" && disturbed != nil {
		w.excuse = disturbed.String()
	}
	switch {
	case wrong == "" && disturbed != nil:
		o.tally.exactDisturbed++
	case wrong == "":
		o.tally.exact++
	case h.last.Before(asked):
		o.tally.unseen++ // it has left already, and may not have been seen whole
	case o.contended(w, h.first):
		o.tally.differedContended++
	case o.vanished(w, h.first):
		o.tally.differedVanished++
	case disturbed != nil:
		o.tally.differedDisturbed++
		o.book.note(fmt.Sprintf("pod %s on %s, seen to be admitted at %s, %.1f s after its Binding was sent, exact: %s; %v",
			w.pod.Name, h.node, h.first.UTC().Format(clockFormat), h.first.Sub(posted).Seconds(), wrong, disturbed))
	default:
		o.book.violate(fmt.Sprintf("pod %s on %s, exact: %s", w.pod.Name, h.node, wrong), h.node, o.evidence(w)...)
	}
}

// posted is when a scheduler last sent the pod's Binding; a Binding that a fault holds up is on its
// way for longer than exact assumes, whatever happens to be done when the kubelet hears of it. Of
// one that was not seen to be sent it is the moment at which the kubelet decided.
func (o *observer) posted(w *watched, decided time.Time) time.Time {
	at, ok := o.cluster.bindings.Load(w.pod.Namespace + "/" + w.pod.Name)
	if !ok || at.(time.Time).After(decided) {
		return decided
	}
	return at.(time.Time)
}

// differ says what of the decisions the allocation contradicts, or "".
func differ(decisions []placement.ContainerDecision, alloc *placement.PodAllocation) string {
	for i := range decisions {
		d, got := &decisions[i], &placement.ContainerAllocation{}
		if k := slices.IndexFunc(alloc.Containers, func(c placement.ContainerAllocation) bool { return c.Name == d.Name }); k >= 0 {
			got = &alloc.Containers[k]
		}
		if got.CPUs != d.CPUs {
			return fmt.Sprintf("container %s has CPUs %q, promised %q", d.Name, got.CPUs.String(), d.CPUs.String())
		}
		if a, b := blocks(got.Memory), blocks(d.Memory); a != b {
			return fmt.Sprintf("container %s has memory %s, promised %s", d.Name, a, b)
		}
		if a, b := fmt.Sprint(got.Devices), fmt.Sprint(d.Devices); a != b {
			return fmt.Sprintf("container %s has devices %s, promised %s", d.Name, a, b)
		}
	}
	return ""
}

// blocks is a text that is equal for equal holdings: blocks of no size hold nothing, and order does
// not count.
func blocks(all []placement.MemoryBlock) string {
	var out []string
	for _, b := range all {
		if b.Bytes > 0 {
			out = append(out, fmt.Sprintf("%s %d on %v", b.Resource, b.Bytes, b.NUMA))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// seeReport checks a NodeTopology by the code of `berth check`, and its sequence.
func (o *observer) seeReport(u *unstructured.Unstructured) {
	nt := &v1alpha1.NodeTopology{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, nt); err != nil {
		o.book.violate("NodeTopology "+u.GetName()+": "+err.Error(), u.GetName())
		return
	}
	problem := ""
	for _, p := range nt.Status.Pods {
		o.list(p.UID, nt.Status.Sequence)
	}
	if data, err := json.Marshal(u.Object); err != nil {
		problem = err.Error()
	} else {
		problem = berthCheck(data, "-")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally.reports++
	last := o.reports[nt.Name]
	o.reports[nt.Name] = nt
	if last != nil && last.UID == nt.UID && nt.Status.Sequence < last.Status.Sequence {
		o.book.violate(fmt.Sprintf("NodeTopology %s: sequence went from %d back to %d", nt.Name, last.Status.Sequence, nt.Status.Sequence), nt.Name, u.Object)
	}
	switch {
	case strings.Contains(problem, "the agent itself says"):
		o.tally.notReady++ // the kubelet restarts: said, not hidden
	case problem != "":
		o.book.violate("NodeTopology "+nt.Name+": "+problem, nt.Name, u.Object)
	}
}

// list notes that a report has the pod.
func (o *observer) list(uid string, sequence int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.listed[uid]; !ok {
		o.listed[uid] = sequence
	}
}

// berthCheck runs `berth check` and returns what is not sound, or "".
func berthCheck(stdin []byte, args ...string) string {
	var out, errs bytes.Buffer
	cmd := cli.NewCheckCommand()
	cmd.SetArgs(append(args, "--output=json"))
	cmd.SetIn(bytes.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	var found []struct{ What, Problem string }
	if json.Unmarshal(out.Bytes(), &found) != nil && err != nil {
		return err.Error()
	}
	var problems []string
	for _, f := range found {
		if f.Problem != "" {
			problems = append(problems, f.What+": "+f.Problem)
		}
	}
	return strings.Join(problems, "; ")
}

// checkpointPoll is how often checkpoints are read: pods live longer.
const checkpointPoll = 50 * time.Millisecond

// When checkpoints are held against the machine. A kubelet writes one file after the other, and a
// change of CPUs in two steps, in between which a fault may stop it: what is not sound must last.
const (
	soundAfter   = 300 * time.Millisecond
	unsoundAfter = 8 * time.Second
)

// watchCheckpoints reads a node's checkpoints whenever they have changed, and holds them against
// the machine when they have not for a while.
func (o *observer) watchCheckpoints(ctx context.Context, spec *hollow.Spec) {
	var last kubeletstate.Raw
	var next, since time.Time // next: of holding against the machine; zero: not before a change
	clock := time.NewTicker(checkpointPoll)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		now := time.Now()
		if raw, held := o.look(spec); held && !raw.Equal(last) {
			last, since, next = raw, now, now.Add(soundAfter)
			o.mu.Lock()
			o.tally.checkpoints++
			o.mu.Unlock()
		}
		if next.IsZero() || now.Before(next) {
			continue
		}
		next = time.Time{}
		switch problem := o.againstMachine(spec); {
		case problem == "":
		case now.Sub(since) < unsoundAfter:
			next = since.Add(unsoundAfter)
		case o.torn(spec.Name, since):
			o.mend(spec.Name, problem)
		default:
			o.book.violate("node "+spec.Name+": "+problem, spec.Name)
		}
	}
}

// torn says whether the node's kubelet was killed when its checkpoints last changed. Killed between
// two writes it does not start again (docs/kubelet-defects.md).
func (o *observer) torn(node string, since time.Time) bool {
	died, _ := o.book.lastKill("node-" + node)
	return since.Sub(died).Abs() < soundAfter
}

// mend does what the agent's report says, and a person would do: it removes the checkpoint
// that is wrong. The kubelet gives all pods new CPUs, or new memory, when it starts.
func (o *observer) mend(node, problem string) {
	o.book.note(fmt.Sprintf("node %s: its kubelet was killed between two writes, and does not start: %s", node, problem))
	wrong := "cpu_manager_state"
	if strings.Contains(problem, ": memory: ") {
		wrong = "memory_manager_state"
	}
	if err := os.Remove(filepath.Join(o.cluster.nodeDir(node).Root(), wrong)); err != nil {
		o.book.violate("node "+node+": "+err.Error(), node)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally.torn++
	o.returned[node] = time.Now()
	for uid, h := range o.holdings {
		if h.node == node {
			delete(o.holdings, uid)
		}
	}
	delete(o.pinned, node)
}

// againstMachine returns what `berth check` says about the checkpoints on this machine, or "".
func (o *observer) againstMachine(spec *hollow.Spec) string {
	dir := o.cluster.nodeDir(spec.Name)
	return berthCheck(nil, dir.Root(), "--node="+spec.Machine, "--kubelet-config="+dir.KubeletConfig())
}

// look reads a node's checkpoints, checks each and remembers who holds what.
func (o *observer) look(spec *hollow.Spec) (raw kubeletstate.Raw, ok bool) {
	raw, err := kubeletstate.ReadRaw(os.DirFS(o.cluster.nodeDir(spec.Name).Root()))
	var state kubeletstate.State
	if err == nil {
		state, err = raw.Parse()
	}
	if err == nil {
		err = state.Check()
	}
	var snap placement.Snapshot
	if err == nil {
		snap, err = state.Snapshot()
	}
	if err != nil {
		o.book.violate("node "+spec.Name+": "+err.Error(), spec.Name)
		return raw, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.saw(spec.Name, snap.Pods, time.Now())
	return raw, true
}

// saw takes in what the checkpoints of a node hold.
func (o *observer) saw(node string, pods []placement.PodAllocation, now time.Time) {
	var pinned []string
	for i := range pods {
		o.remember(node, &pods[i], now)
		if hasCPUs(&pods[i]) {
			pinned = append(pinned, pods[i].UID)
		}
	}
	for _, uid := range o.pinned[node] {
		if !slices.Contains(pinned, uid) {
			o.holdings[uid].left = now
		}
	}
	o.pinned[node] = pinned
}

func hasCPUs(p *placement.PodAllocation) bool {
	return slices.ContainsFunc(p.Containers, func(c placement.ContainerAllocation) bool { return !c.CPUs.IsEmpty() })
}

// forgotten says whether the kubelet has let go of the pod's CPUs and was killed after that. It let
// go because the pod had ended, or because it refused the pod when it started. What it has not told
// the API by its death it does not know after it, and admits the pod again
// (docs/kubelet-defects.md).
func (o *observer) forgotten(h *holding) bool {
	died, _ := o.book.lastKill("node-" + h.node)
	return !h.left.IsZero() && died.After(h.left)
}

// remember adds what the pod holds to what it has been seen to hold: while it is being admitted
// that grows. What it has been given does not change, until its kubelet has forgotten it.
func (o *observer) remember(node string, p *placement.PodAllocation, now time.Time) {
	h := o.holdings[p.UID]
	if h != nil && hasCPUs(p) && o.forgotten(h) {
		o.tally.readmitted++
		o.returned[node] = now
		o.book.note(fmt.Sprintf("node %s admitted pod %s again, whose CPUs it had let go of before it was killed", node, p.UID))
		h = nil
	}
	if h == nil {
		h = &holding{node: node, first: now, alloc: placement.PodAllocation{UID: p.UID}}
		o.holdings[p.UID] = h
	}
	h.last = now
	if hasCPUs(p) {
		h.left = time.Time{}
	}
	for i := range p.Containers {
		is := &p.Containers[i]
		k := slices.IndexFunc(h.alloc.Containers, func(c placement.ContainerAllocation) bool { return c.Name == is.Name })
		if k < 0 {
			h.alloc.Containers = append(h.alloc.Containers, *is)
			continue
		}
		was := &h.alloc.Containers[k]
		if !was.CPUs.IsEmpty() && !is.CPUs.IsEmpty() && was.CPUs != is.CPUs {
			o.book.violate(fmt.Sprintf("node %s: pod %s, container %s: CPUs went from %s to %s", node, p.UID, is.Name, was.CPUs.String(), is.CPUs.String()), node)
		}
		if was.CPUs.IsEmpty() {
			was.CPUs = is.CPUs
		}
		if len(is.Memory) > 0 {
			was.Memory = is.Memory
		}
		if len(is.Devices) > 0 {
			was.Devices = is.Devices
		}
	}
}

// evidence is what else to print of a violation that concerns the pod; the caller holds mu.
func (o *observer) evidence(w *watched) []any {
	out := []any{w.pod}
	if nt := o.reports[w.pod.Spec.NodeName]; nt != nil {
		out = append(out, nt)
	}
	type neighbour struct {
		Name, UID, Phase, Placement string
		Created                     metav1.Time
		Deleted                     *metav1.Time
		Gone                        bool
		Held                        string
	}
	var all []neighbour
	for uid, other := range o.pods {
		if other.pod.Spec.NodeName != w.pod.Spec.NodeName || time.Since(other.pod.CreationTimestamp.Time) > time.Minute {
			continue
		}
		n := neighbour{Name: other.pod.Name, UID: string(uid), Phase: string(other.pod.Status.Phase), Placement: other.pod.Annotations[wire.PlacementAnnotation],
			Created: other.pod.CreationTimestamp, Deleted: other.pod.DeletionTimestamp, Gone: other.gone}
		if h := o.holdings[string(uid)]; h != nil {
			n.Held = fmt.Sprintf("%s %+v", h.first.UTC().Format(clockFormat), h.alloc.Containers)
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b neighbour) int { return strings.Compare(a.Name, b.Name) })
	return append(out, all)
}
