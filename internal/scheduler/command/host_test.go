package command

import (
	"context"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/scheduler/gang"
)

// TestSeams: kube-scheduler calls everything that Berth replaces, in a cycle that places a pod and
// in a cycle that does not. Its cache and queue do what Berth expects of them.
func TestSeams(t *testing.T) {
	s := newSeams(t)
	s.add(t, s.pod("small", "1"))
	s.cycle(t)
	<-s.binds
	<-s.failed // the API has no such pod: its binding cycle is over
	s.add(t, s.pod("large", "1000"))
	s.cycle(t)
	want := []string{
		"Scheduler.NextEntity", "Scheduler.SchedulePod", "Scheduler.FailureHandler",
		"Framework.PercentageOfNodesToScore", "Framework.RunPreFilterPlugins", "Framework.RunFilterPluginsWithNominatedPods",
		"Framework.RunPreScorePlugins", "Framework.APICacher", "Framework.EventRecorder",
	}
	for _, seam := range want {
		if !s.passed.Has(seam) {
			t.Errorf("kube-scheduler does not come by at %s any more", seam)
		}
	}
	if len(s.passed.Set) != len(want) {
		t.Errorf("passed %v, want %v", slices.Sorted(maps.Keys(s.passed.Set)), want)
	}
	for _, profile := range s.sched.Profiles {
		if _, ok := fwk.Handle(profile).(gang.Runner); !ok {
			t.Error("a plugin's Handle is no gang.Runner any more: gangs cannot be tried")
		}
	}
	if shared := informersOf(s.sched); shared == nil {
		t.Error("Framework.SharedInformerFactory: none")
	}
	t.Run("a certain pod", s.popsSpecific)
	t.Run("a pod is put back", s.putsBack)
	t.Run("Scheduler.SchedulingQueue", s.putsEvents)
	t.Run("Scheduler.Cache", s.caches)
}

// popsSpecific: a waiting pod is taken from the queue out of order. A pod that is not in the queue
// is not found.
func (s *seams) popsSpecific(t *testing.T) {
	for _, name := range []string{"first", "second", "third"} {
		s.add(t, s.pod(name, "1"))
	}
	next, take := taking(s.sched)
	if got := take(klog.Background(), s.pod("third", "1")); got == nil || podOf(got).Pod.Name != "third" {
		t.Errorf("got %+v, want the third pod", got)
	}
	if got := take(klog.Background(), s.pod("fourth", "1")); got != nil {
		t.Errorf("got %s, which nobody has added", podOf(got).Pod.Name)
	}
	q := backlog{s.sched.SchedulingQueue}
	q.Done("third")
	q.Delete(s.pod("first", "1"))
	if got := take(klog.Background(), s.pod("first", "1")); got != nil {
		t.Error("a pod that was deleted has come")
	}
	if got, err := next(klog.Background()); err != nil || podOf(got).Pod.Name != "second" {
		t.Errorf("got %+v, %v: want the pod that is left", got, err)
	}
	q.Done("second")
}

// putsBack: a pod waits again after its cycle, and an event or a call returns it to the queue.
func (s *seams) putsBack(t *testing.T) {
	pod, logger, q := s.pod("held", "1"), klog.Background(), backlog{s.sched.SchedulingQueue}
	s.add(t, pod)
	_, take := taking(s.sched)
	found := take(logger, pod)
	if found == nil {
		t.Fatal("the pod did not come")
	}
	eachPod(found, func(info *framework.QueuedPodInfo) {
		if err := q.PutBack(logger, info, q.SchedulingCycle()); err != nil {
			t.Fatal(err)
		}
	})
	q.Done(pod.UID)
	q.Activate(logger, map[string]*corev1.Pod{"default/held": pod})
	if again := take(logger, pod); again == nil {
		t.Error("Activate has not brought the pod back")
	}
	q.Done(pod.UID)
	q.Delete(pod)
	q.MoveAllToActiveOrBackoffQueue(logger, framework.EventAssignedPodDelete, pod, nil, nil)
}

// putsEvents: cluster events are passed to the scheduler's current queue.
func (s *seams) putsEvents(t *testing.T) {
	moves := make(chan fwk.ClusterEvent, 10)
	s.sched.SchedulingQueue = noting{s.sched.SchedulingQueue, moves}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	if _, err := s.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := <-moves; event.Resource != fwk.Node || event.ActionType != fwk.Add {
		t.Errorf("the queue hears of %v, want the new node", event)
	}
}

// noting is a queue that records its calls.
type noting struct {
	queue.SchedulingQueue
	moves chan fwk.ClusterEvent
}

func (n noting) MoveAllToActiveOrBackoffQueue(_ klog.Logger, event fwk.ClusterEvent, _, _ any, _ queue.PreEnqueueCheck) {
	n.moves <- event
}

// checking is a queue with one pod, and records whether it received an event.
type checking struct {
	queue.SchedulingQueue
	put bool
}

func (c *checking) MoveAllToActiveOrBackoffQueue(_ klog.Logger, _ fwk.ClusterEvent, _, _ any, check queue.PreEnqueueCheck) {
	c.put = check == nil || check(&corev1.Pod{})
}

// TestEventsThatCannotHelp: a pod that only Berth has refused is only asked about the events that
// Berth has registered. kube-scheduler's other checks still apply.
func TestEventsThatCannotHelp(t *testing.T) {
	yes, no := func(*corev1.Pod) bool { return true }, func(*corev1.Pod) bool { return false }
	for _, test := range []struct {
		event fwk.ClusterEvent
		ours  func(*corev1.Pod) bool
		check queue.PreEnqueueCheck
		want  bool
	}{
		{framework.EventAssignedPodAdd, yes, nil, false},
		{framework.EventAssignedPodAdd, yes, yes, false},
		{framework.EventAssignedPodAdd, no, nil, true},
		{framework.EventAssignedPodAdd, no, yes, true},
		{framework.EventAssignedPodAdd, no, no, false},
		{framework.EventAssignedPodUpdate, yes, nil, false},
		{framework.EventAssignedPodDelete, yes, nil, true},
		{framework.EventAssignedPodDelete, yes, no, false},
		{itself, yes, nil, true},
		{another, yes, nil, false},
		{fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, yes, nil, true},
		{fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, yes, nil, true},
		{fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}, yes, nil, false},
		{fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}, no, nil, true},
		{framework.EventForceActivate, yes, nil, true},
		{framework.EventUnschedulableTimeout, yes, nil, true},
	} {
		q := &checking{}
		attentive{q, test.ours}.MoveAllToActiveOrBackoffQueue(klog.Background(), test.event, nil, nil, test.check)
		if q.put != test.want {
			t.Errorf("%v, ours %v: put to the pod: %v, want %v", test.event, test.ours(nil), q.put, test.want)
		}
	}
}

// caches: a pod in the cache counts on its node until it is removed.
func (s *seams) caches(t *testing.T) {
	pod, logger := s.pod("cached", "1"), klog.Background()
	pod.Spec.NodeName = "n"
	if err := s.sched.Cache.AddPod(logger, pod); err != nil {
		t.Fatal(err)
	}
	later := pod.DeepCopy()
	later.Labels = map[string]string{"a": "b"}
	if err := s.sched.Cache.UpdatePod(logger, pod, later); err != nil {
		t.Fatal(err)
	}
	if got, err := s.sched.Cache.GetPod(pod); err != nil || got.Labels["a"] != "b" {
		t.Errorf("got %v, %v: want the pod with its label", got, err)
	}
	if err := s.sched.Cache.RemovePod(logger, later); err != nil {
		t.Error(err)
	}
}

// TestHostAlone: no other file of the scheduler uses kube-scheduler's own structs.
func TestHostAlone(t *testing.T) {
	structs := []string{"k8s.io/kubernetes/pkg/scheduler", "k8s.io/kubernetes/pkg/scheduler/backend/"}
	lawful := map[string]string{
		"command/host.go":        "the seams",
		"command/command.go":     "makes the scheduler",
		"command/search.go":      "names SchedulePod's result",
		"command/release_136.go": "the seams of 1.36",
		"command/release_137.go": "the seams of 1.37",
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			for _, s := range structs {
				if (imported == s || strings.HasSuffix(s, "/") && strings.HasPrefix(imported, s)) && lawful[name] == "" {
					t.Errorf("%s imports %s: what Berth reaches of it stands in command/host.go", name, imported)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// seams is a scheduler with one node, and a record of the calls in its cycles.
type seams struct {
	sched  *kubescheduler.Scheduler
	client *fake.Clientset
	passed *places
	// pods are the pods that the scheduler watches.
	pods cache.Store
	// binds is closed when a binding cycle reaches its Binding.
	binds chan struct{}
	// failed receives a value after each call of the FailureHandler.
	failed chan struct{}
}

// places has the calls that were made. Nodes are filtered in parallel.
type places struct {
	sync.Mutex
	sets.Set[string]
}

func (p *places) Insert(name string) {
	p.Lock()
	defer p.Unlock()
	p.Set.Insert(name)
}

func newSeams(t *testing.T) *seams {
	t.Helper()
	room := corev1.ResourceList{"cpu": resource.MustParse("10"), "memory": resource.MustParse("10Gi"), "pods": resource.MustParse("10")}
	nodes := [2]*corev1.Node{} // a single node is not scored
	for i, name := range []string{"n", "o"} {
		nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: room, Capacity: room}}
	}
	s := &seams{client: fake.NewClientset(nodes[0], nodes[1]), passed: &places{Set: sets.New[string]()}}
	shared := informersFor(s.client)
	profile, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile.Profiles[0].Plugins.QueueSort = config.PluginSet{Enabled: []config.Plugin{{Name: scheduler.SortName}}, Disabled: []config.Plugin{{Name: "*"}}}
	sched, err := kubescheduler.New(t.Context(), s.client, shared, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		kubescheduler.WithProfiles(profile.Profiles...), kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{scheduler.SortName: NewSort}))
	if err != nil {
		t.Fatal(err)
	}
	s.pods = shared.Core().V1().Pods().Informer().GetStore()
	s.sched, s.binds, s.failed = sched, make(chan struct{}), make(chan struct{}, 10)
	for name, profile := range sched.Profiles {
		sched.Profiles[name] = binding{profile, s}
	}
	next, place, failed := *loop(sched), sched.SchedulePod, sched.FailureHandler
	*loop(sched) = func(logger klog.Logger) (entity, error) {
		s.passed.Insert("Scheduler.NextEntity")
		return next(logger)
	}
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		s.passed.Insert("Scheduler.SchedulePod")
		return place(ctx, passing{profile, s.passed}, state, pod)
	}
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		s.passed.Insert("Scheduler.FailureHandler")
		failed(ctx, passing{profile, s.passed}, info, status, nominating, start)
		s.failed <- struct{}{}
	}
	shared.Start(t.Context().Done())
	shared.WaitForCacheSync(t.Context().Done())
	if err := sched.WaitForHandlersSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sched.SchedulingQueue.Close)
	return s
}

func (s *seams) pod(name, cpus string) *corev1.Pod {
	asks := corev1.ResourceList{"cpu": resource.MustParse(cpus)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: asks}}}},
	}
}

// add puts a pod into the queue.
func (s *seams) add(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := s.pods.Add(pod); err != nil {
		t.Fatal(err)
	}
	s.sched.SchedulingQueue.Add(t.Context(), pod)
	s.sched.SchedulingQueue.Update(t.Context(), pod, pod)
}

// cycle runs one scheduling cycle.
func (s *seams) cycle(t *testing.T) {
	t.Helper()
	s.sched.ScheduleOne(t.Context())
}

// binding is a profile that records when a pod reaches its Binding.
type binding struct {
	framework.Framework
	*seams
}

func (b binding) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	close(b.binds)
	return b.Framework.RunBindPlugins(ctx, state, pod, node)
}

// passing is a profile that records its calls.
type passing struct {
	framework.Framework
	passed *places
}

func (p passing) PercentageOfNodesToScore() *int32 {
	p.passed.Insert("Framework.PercentageOfNodesToScore")
	return p.Framework.PercentageOfNodesToScore()
}

func (p passing) EventRecorder() events.EventRecorderLogger {
	p.passed.Insert("Framework.EventRecorder")
	return p.Framework.EventRecorder()
}

func (p passing) APICacher() fwk.APICacher {
	p.passed.Insert("Framework.APICacher")
	return p.Framework.APICacher()
}

func (p passing) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	p.passed.Insert("Framework.RunPreFilterPlugins")
	return p.Framework.RunPreFilterPlugins(ctx, state, pod)
}

func (p passing) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	p.passed.Insert("Framework.RunPreScorePlugins")
	return p.Framework.RunPreScorePlugins(ctx, state, pod, nodes)
}

func (p passing) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	p.passed.Insert("Framework.RunFilterPluginsWithNominatedPods")
	return p.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
}
