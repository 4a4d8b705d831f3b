package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/dump"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/kubeletstate"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// world plays a node, a kubelet and an API server that do what a test says.
type world struct {
	t      *testing.T
	m      *mirror
	clock  time.Time
	files  kubeletstate.Raw
	node   *corev1.Node
	config *kubeletv1beta1.KubeletConfiguration
	active map[string]int
	// noPlugin means that no device plugin has registered.
	noPlugin bool
	asked    int // times the kubelet was asked for active pods
	// held has the devices of pods, by namespace/name; nil if the kubelet does not report them.
	held      map[string][]kubeletstate.DeviceEntry
	askedHeld int

	configErr   error
	configAsked int    // times the configuration was read
	configFiles string // the fingerprint of the configuration's files

	readErr    error
	publishErr error
	refuse     func(*v1alpha1.NodeTopology) error // the API server's answer to a report; nil: it accepts all
	writes     []*v1alpha1.NodeTopology
	amounts    []*nrt.NodeResourceTopology
	stored     *v1alpha1.NodeTopology
	// numatopologies are the published ones.
	numatopologies []*nodeinfo.Numatopology
	// told are the published Devices of Koordinator.
	told []*koordinator.Device
}

func (w *world) ActivePods(context.Context) (map[string]int, error) {
	w.asked++
	if w.active == nil {
		return nil, errors.New("no kubelet")
	}
	return w.active, nil
}

func (w *world) Held(context.Context) (map[string][]kubeletstate.DeviceEntry, error) {
	w.askedHeld++
	if w.held == nil {
		return nil, errors.New("no kubelet")
	}
	return w.held, nil
}

func (w *world) Devices(context.Context) (map[string][]placement.Device, error) {
	if w.noPlugin {
		return nil, nil
	}
	return map[string][]placement.Device{"x.y/d": {{ID: "d0", NUMA: 1, HasTopology: true}, {ID: "d1", NUMA: 2, HasTopology: true}}}, nil
}

func (w *world) NodeTopology(context.Context) (*v1alpha1.NodeTopology, error) { return w.stored, nil }

func (w *world) Publish(_ context.Context, nt *v1alpha1.NodeTopology) error {
	if w.publishErr != nil {
		return w.publishErr
	}
	if w.refuse != nil {
		if err := w.refuse(nt); err != nil {
			return err
		}
	}
	nt.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: w.node.Name, UID: w.node.UID}}
	w.writes, w.stored = append(w.writes, nt), nt
	return nil
}

func (w *world) PublishAmounts(_ context.Context, _ schema.GroupVersionResource, o metav1.Object) error {
	switch o := o.(type) {
	case *nodeinfo.Numatopology:
		w.numatopologies = append(w.numatopologies, o)
	case *koordinator.Device:
		w.told = append(w.told, o)
	case *nrt.NodeResourceTopology:
		w.amounts = append(w.amounts, o)
	}
	return nil
}

func (w *world) Heartbeat(context.Context, int64, time.Time) error { return nil }

const testMachine = "package:2 numa:1 core:4 pu:1 mem:8Gi dist:10,21" // CPUs 0-3, 4-7

// givenMachine returns the source of a machine that never changes.
func givenMachine(text string) machineSource { return (&Options{Machine: text}).readMachine }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC), active: map[string]int{}}
	w.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	w.node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	w.node.Status.Capacity = corev1.ResourceList{"x.y/d": resource.MustParse("2")}
	w.config = &kubeletv1beta1.KubeletConfiguration{CPUManagerPolicy: "static", ReservedSystemCPUs: "0", TopologyManagerPolicy: "restricted"}
	config := ConfigSource{read: func(context.Context) (*kubeletv1beta1.KubeletConfiguration, error) {
		w.configAsked++
		return w.config, w.configErr
	}}
	now := func() time.Time { return w.clock }
	node := func() *corev1.Node { return w.node }
	log := slog.New(slog.DiscardHandler)
	say := newComplaints(log)
	metrics := newMetrics(func() float64 { return 0 })
	w.m = &mirror{
		now: now, node: node, kubelet: w, pods: newPodBook(DefaultRivals()), presence: &presence{now: now}, devices: newDeviceBook(nil, func() (map[string]string, error) { return nil, nil }),
		history: newHistory(), say: say, metrics: metrics,
		books:  &checkpoints{read: func() (kubeletstate.Raw, error) { return w.files, w.readErr }},
		around: &surroundings{now: now, machine: givenMachine(testMachine), config: config, say: say, attempts: newLook()},
		out: &publisher{
			name: "n1", node: node, api: w, now: now, pace: pace{least: 100 * time.Millisecond}, log: log, metrics: metrics, backoff: newBackoff(),
		},
	}
	w.cpus("0-7", nil)
	w.admitted()
	return w
}

// cpus writes a cpu_manager_state with a container main for each pod. It has no checksum, which the
// kubelet accepts.
func (w *world) cpus(shared string, pods map[string]string) {
	entries := map[string]map[string]string{}
	for uid, list := range pods {
		entries[uid] = map[string]string{"main": list}
	}
	data, err := json.Marshal(map[string]any{"policyName": "static", "defaultCpuSet": shared, "entries": entries, "checksum": 0})
	if err != nil {
		w.t.Fatal(err)
	}
	w.files.CPU = data
}

// admitted writes an allocated_pods_state.
func (w *world) admitted(uids ...string) {
	var entries []string
	for _, uid := range uids {
		entries = append(entries, fmt.Sprintf("%q:{}", uid))
	}
	text := `{"entries":{` + strings.Join(entries, ",") + `}}`
	h := fnv.New32a()
	fmt.Fprint(h, "(string)"+text)
	w.files.Admitted = fmt.Appendf(nil, `{"data":%q,"checksum":%d}`, text, h.Sum32())
}

func (w *world) pod(uid string, phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(w.clock)}}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	pod.Status.Phase = phase
	return pod
}

func (w *world) see(uid string, phase corev1.PodPhase) { w.m.pods.see(w.pod(uid, phase), w.clock) }

// settle calls step until no step is urgent, and lets the requested time pass. It stops after a
// simulated minute.
func (w *world) settle() {
	w.t.Helper()
	for begun := w.clock; ; {
		next := w.m.step(context.Background())
		if next == settled {
			return
		}
		if w.clock = w.clock.Add(next.after); w.clock.Sub(begun) > 2*time.Minute {
			w.t.Fatal("never settles")
		}
	}
}

// steps calls step n times, and lets the requested time pass.
func (w *world) steps(n int) {
	for range n {
		w.clock = w.clock.Add(w.m.step(context.Background()).after)
	}
}

// last reads the last report that was written.
func (w *world) last() wire.Node {
	w.t.Helper()
	if len(w.writes) == 0 {
		w.t.Fatal("nothing has been written")
	}
	n, err := wire.ReadNodeTopology(w.writes[len(w.writes)-1])
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) wantWrites(n int) {
	w.t.Helper()
	if len(w.writes) != n {
		w.t.Fatalf("%d writes, want %d", len(w.writes), n)
	}
}

func (w *world) wantReady(reason, message string) {
	w.t.Helper()
	n := w.last()
	c := n.Report.Ready()
	if c.Reason != reason || (c.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReasonConsistent) || !strings.Contains(c.Message, message) {
		w.t.Errorf("condition %+v, want reason %s and %q in the message", c, reason, message)
	}
}

// wantPods compares the pods of the last report with "uid:state:cpus", in order.
func (w *world) wantPods(want ...string) {
	w.t.Helper()
	n := w.last()
	var got []string
	for i, p := range n.Report.Snapshot.Pods {
		cpus := ""
		for _, c := range p.Containers {
			cpus += c.CPUs.String()
		}
		got = append(got, fmt.Sprintf("%s:%s:%s", p.UID, n.Report.Pods[i].State, cpus))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("pods %v, want %v", got, want)
	}
}

func TestWritesOnlyChanges(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.wantWrites(1)
	w.wantReady(v1alpha1.ReasonConsistent, "")
	w.clock = w.clock.Add(time.Hour)
	w.settle()
	w.wantWrites(1)
	if at, sequence := w.m.out.vouch.holds(); at != w.clock || sequence != 1 {
		t.Errorf("verified at %v as %d, want now as 1", at, sequence)
	}
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.see("a", corev1.PodPending)
	w.settle()
	w.wantWrites(2)
	w.wantPods("a::1-2")
	if n := w.last(); n.Report.Sequence != 2 || n.Report.Snapshot.SharedCPUs.String() != "0,3-7" {
		t.Errorf("got %+v", n.Report)
	}
	if w.asked > 0 {
		t.Error("the kubelet was asked though the answer could not matter")
	}
}

func TestAdmittedPodsThatPinNothingAreReported(t *testing.T) {
	w := newWorld(t)
	w.see("b", corev1.PodPending)
	w.see("a", corev1.PodRunning)
	w.see("c", corev1.PodPending)
	w.see("d", corev1.PodSucceeded)
	w.admitted("a", "b", "d", "gone")
	w.settle()
	w.wantPods("a::", "b::") // c is not admitted, d has ended, and gone is unknown
}

// TestHalfOfAnAdmission: the kubelet first writes the file without the CPUs, then with their new
// owner, and only then is the pod admitted.
func TestHalfOfAnAdmission(t *testing.T) {
	w := newWorld(t)
	w.see("a", corev1.PodPending)
	w.settle()
	w.cpus("0,3-7", nil)
	w.steps(10)
	w.wantWrites(1)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.steps(20)
	w.wantWrites(1)
	w.admitted("a")
	w.settle()
	w.wantWrites(2)
	w.wantPods("a::1-2")
	w.wantReady(v1alpha1.ReasonConsistent, "")
}

// TestSlowAdmission: a slow kubelet needs seconds between two writes, and until the second one its
// checkpoints contradict each other. This is not reported while a pod is being admitted. It is
// reported if the kubelet is gone, or if the admission does not end.
func TestSlowAdmission(t *testing.T) {
	half := func(t *testing.T) *world {
		w := newWorld(t)
		w.m.presence.is(true)
		w.settle()
		w.see("a", corev1.PodPending)
		w.cpus("0,3-7", nil)
		return w
	}
	untilWritten := func(w *world) time.Duration {
		begun := w.clock
		for len(w.writes) < 2 {
			w.steps(1)
		}
		w.wantReady(v1alpha1.ReasonContradiction, `"0,3-7"`)
		return w.clock.Sub(begun).Round(100 * time.Millisecond)
	}
	w := half(t)
	for begun := w.clock; w.clock.Sub(begun) < 4*time.Second; {
		w.steps(1)
	}
	w.wantWrites(1)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.settle()
	w.wantPods("a::1-2")
	w.wantReady(v1alpha1.ReasonConsistent, "")
	if took := untilWritten(half(t)); took != slowLimit {
		t.Errorf("never ends: told after %v, want %v", took, slowLimit)
	}
	w = half(t)
	w.m.presence.is(false)
	if took := untilWritten(w); took != tornLimit {
		t.Errorf("the kubelet is gone: told after %v, want %v", took, tornLimit)
	}
}

// TestKubeletKilledBetweenTwoWrites: some CPUs are neither shared nor assigned to a pod. A kubelet
// that starts does not repair this.
func TestKubeletKilledBetweenTwoWrites(t *testing.T) {
	w := newWorld(t)
	w.m.presence.is(true)
	w.settle()
	w.cpus("0,3-7", nil)
	w.settle()
	w.wantReady(v1alpha1.ReasonContradiction, `sharedCPUs: "0,3-7": want CPUs "1-2" to be shared`)
	n := w.last()
	if c := n.Report.Ready(); strings.Contains(c.Message, "delete") {
		t.Errorf("a kubelet that runs may still mend it: %s", c.Message)
	}
	w.m.presence.is(false)
	w.m.notice()
	w.settle()
	w.wantReady(v1alpha1.ReasonContradiction, `current set of available CPUs "0-7" doesn't match with CPUs in state "0,3-7"`)
	w.wantReady(v1alpha1.ReasonContradiction, "drain the node, stop the kubelet, delete cpu_manager_state, start the kubelet")
}

// TestKubeletKilledWhileItAdmits: the agent names the file because of which the kubelet cannot
// start, although a pod is still being admitted.
func TestKubeletKilledWhileItAdmits(t *testing.T) {
	w := newWorld(t)
	w.m.presence.is(true)
	w.settle()
	w.see("a", corev1.PodPending)
	w.cpus("0,3-7", map[string]string{"a": "1"})
	w.m.presence.is(false)
	for begun := w.clock; len(w.writes) < 2; w.steps(1) {
		if w.clock.Sub(begun) > 2*arrivalLimit {
			t.Fatal("never reported")
		}
	}
	w.wantReady(v1alpha1.ReasonContradiction, "delete cpu_manager_state, start the kubelet")
}

func TestTwoReadingsMustAgree(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.cpus(fmt.Sprintf("0,%d-7", i+1), map[string]string{"a": fmt.Sprintf("1-%d", i+1)})
		if next := w.m.step(context.Background()); next != again(settleTime) {
			t.Fatalf("reading %d: next step in %v, want %v", i, next, settleTime)
		}
	}
	w.wantWrites(0)
}

func TestAdmissionThatNeverEnds(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.see("a", corev1.PodPending)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	begun := w.clock
	for len(w.writes) < 2 {
		w.steps(1)
		if w.clock.Sub(begun) > 2*arrivalLimit {
			t.Fatal("never reported")
		}
		if at, _ := w.m.out.vouch.holds(); w.clock.Sub(at) > time.Second && w.clock.Sub(begun) < arrivalLimit {
			t.Fatal("meanwhile the earlier report is not vouched for")
		}
	}
	if took := w.clock.Sub(begun); took < arrivalLimit {
		t.Errorf("reported after %v, want patience for %v", took, arrivalLimit)
	}
	w.wantReady(v1alpha1.ReasonAdmissionUnfinished, "a")
}

// TestWhatNoAdmissionEndsIsSaidAtOnce: while a pod is being admitted, the node is refused only for
// reasons that the admission does not change.
func TestWhatNoAdmissionEndsIsSaidAtOnce(t *testing.T) {
	for reason, want := range map[string]hold{
		v1alpha1.ReasonConsistent: forArrival, v1alpha1.ReasonAdmissionUnfinished: forArrival, v1alpha1.ReasonContradiction: forArrival,
		v1alpha1.ReasonDevicesUnknown: forArrival, v1alpha1.ReasonUnsupported: noHold, v1alpha1.ReasonNotEnforced: noHold, v1alpha1.ReasonMachineChanged: noHold,
	} {
		p, v := patience{}, verdict{reason: reason, outcome: &outcome{arriving: []string{"a"}}}
		if got, _ := p.with(&v, time.Unix(1000, 0)); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}

// TestEndedPodIsHeldWhileActive: the pod is gone in the API, but the kubelet still lists it.
func TestEndedPodIsHeldWhileActive(t *testing.T) {
	for _, end := range []struct {
		name string
		by   func(w *world)
	}{
		{"terminal", func(w *world) { w.see("a", corev1.PodSucceeded) }},
		{"deleted", func(w *world) { w.m.pods.lose(w.pod("a", corev1.PodRunning), w.clock) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			w := newWorld(t)
			w.see("a", corev1.PodRunning)
			w.cpus("0,3-7", map[string]string{"a": "1-2"})
			w.admitted("a")
			w.settle()
			end.by(w)
			w.active = map[string]int{"ns/pod-a": 1}
			w.steps(20)
			w.wantPods("a::1-2")
			w.active = map[string]int{}
			w.settle()
			w.wantPods("a:Ended:1-2")
			w.admitted() // the kubelet forgets a pod before it takes the pod's CPUs back
			w.settle()
			w.wantPods("a:Ended:1-2")
			w.cpus("0-7", nil)
			w.settle()
			w.wantPods()
			if len(w.m.pods.all()) > 0 && end.name == "deleted" {
				t.Errorf("still remembered: %v", w.m.pods.all())
			}
		})
	}
}

// TestNamesake: a new pod has the name of one that is gone.
func TestNamesake(t *testing.T) {
	w := newWorld(t)
	old, young := w.pod("old", corev1.PodRunning), w.pod("young", corev1.PodRunning)
	old.Name, young.Name = "web-0", "web-0"
	w.m.pods.see(old, w.clock)
	w.cpus("0,3-7", map[string]string{"old": "1-2"})
	w.admitted("old")
	w.settle()
	w.m.pods.lose(old, w.clock)
	w.m.pods.see(young, w.clock)
	w.active = map[string]int{"ns/web-0": 2}
	w.steps(10)
	w.wantPods("old::1-2")
	w.active = map[string]int{"ns/web-0": 1}
	w.settle()
	w.wantPods("old:Ended:1-2")
}

func TestWithoutEvidenceTimeCounts(t *testing.T) {
	w := newWorld(t)
	w.active = nil
	w.see("a", corev1.PodRunning)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.settle()
	w.see("a", corev1.PodFailed)
	begun := w.clock
	w.settle()
	w.wantPods("a:Ended:1-2")
	if took := w.clock.Sub(begun); took < evidenceByTime {
		t.Errorf("after %v, want %v at least", took, evidenceByTime)
	}
}

// TestListOfAllPods: before 1.34, the kubelet lists ended pods until they are deleted.
func TestListOfAllPods(t *testing.T) {
	w := newWorld(t)
	w.node.Status.NodeInfo.KubeletVersion = "v1.33.5"
	w.active = map[string]int{"ns/pod-a": 1}
	w.see("a", corev1.PodRunning)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.settle()
	w.see("a", corev1.PodSucceeded)
	begun := w.clock
	w.settle()
	w.wantPods("a:Ended:1-2")
	if took := w.clock.Sub(begun); took < evidenceByTime {
		t.Errorf("after %v, want %v at least", took, evidenceByTime)
	}
	w.cpus("0,4-7", map[string]string{"a": "1-2", "x": "3"}) // with an unknown pod, now all listed pods are known
	w.settle()
	w.wantPods("a:Ended:1-2", "x:Ended:3")
}

func TestPodThatRanWasNotRefused(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("a", corev1.PodRunning)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	w.m.pods.see(pod, w.clock)
	w.m.pods.lose(pod, w.clock)
	w.cpus("0,4-7", map[string]string{"a": "1-2", "b": "3"})
	w.see("b", corev1.PodFailed) // there is no sign that b was ever admitted
	w.settle()
	w.wantPods("a:Ended:1-2", "b:Rejected:3")
}

func TestRefusedPodHoldsItsHalf(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("a", corev1.PodFailed)
	pod.Status.Message = "Pod was rejected: Resources cannot be allocated with Topology locality"
	w.m.pods.see(pod, w.clock)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.settle()
	w.wantPods("a:Rejected:1-2")
	w.wantReady(v1alpha1.ReasonConsistent, "")
}

// TestStranger: the checkpoints name a pod that the API has never shown.
func TestStranger(t *testing.T) {
	w := newWorld(t)
	w.cpus("0,3-7", map[string]string{"x": "1-2"})
	w.active = map[string]int{"ns/unheard-of": 1}
	for len(w.writes) == 0 {
		w.steps(1)
	}
	w.wantPods("x:Unknown:1-2")
	w.active = map[string]int{}
	w.settle()
	w.wantPods("x:Ended:1-2")
	w.see("x", corev1.PodRunning)
	w.admitted("x")
	w.settle()
	w.wantPods("x::1-2")
}

func TestStaticPodGoesByItsMirror(t *testing.T) {
	w := newWorld(t)
	mirror := w.pod("api-uid", corev1.PodRunning)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "manifest-hash"}
	w.m.pods.see(mirror, w.clock)
	w.cpus("0,3-7", map[string]string{"manifest-hash": "1-2"})
	w.admitted("manifest-hash")
	w.settle()
	w.wantPods("api-uid::1-2")
	again := w.pod("other-uid", corev1.PodRunning)
	again.Annotations = mirror.Annotations
	w.m.pods.see(again, w.clock)
	w.m.pods.lose(mirror, w.clock)
	w.settle()
	w.wantPods("other-uid::1-2")
}

func TestKindsOrderAndStarts(t *testing.T) {
	w := newWorld(t)
	always := corev1.ContainerRestartPolicyAlways
	pod := w.pod("a", corev1.PodRunning)
	pod.Spec.InitContainers = []corev1.Container{{Name: "z-init"}, {Name: "a-side", RestartPolicy: &always}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "z-init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	w.m.pods.see(pod, w.clock)
	w.files.CPU = []byte(`{"policyName":"static","defaultCpuSet":"0,4-7","entries":{"a":{"a-side":"3","main":"1-2","z-init":"1"}},"checksum":0}`)
	w.admitted("a")
	w.settle()
	n := w.last()
	var got []string
	for _, c := range n.Report.Snapshot.Pods[0].Containers {
		got = append(got, fmt.Sprintf("%s:%d", c.Name, c.Kind))
	}
	if !slices.Equal(got, []string{"z-init:1", "a-side:2", "main:0"}) {
		t.Errorf("containers %v", got)
	}
}

func TestOrderOfAdmissionStays(t *testing.T) {
	w := newWorld(t)
	add := func(uids ...string) {
		for _, uid := range uids {
			w.see(uid, corev1.PodRunning)
			w.clock = w.clock.Add(time.Second)
		}
		w.admitted(append(slices.Sorted(keysOf(w.m.pods.all())), uids...)...)
		w.settle()
	}
	add("m")
	add("z", "a")
	add("b")
	w.wantPods("m::", "z::", "a::", "b::")
}

func keysOf(m map[string]podFacts) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestProblemsAreSaid(t *testing.T) {
	for _, tc := range []struct {
		name, reason, message string
		spoil                 func(w *world)
	}{
		{"unreadable", v1alpha1.ReasonUnreadable, "denied", func(w *world) { w.readErr = errors.New("permission denied") }},
		{"truncated", v1alpha1.ReasonUnreadable, "cpu_manager_state", func(w *world) { w.files.CPU = []byte(`{"pol`) }},
		{"checksum", v1alpha1.ReasonUnreadable, "checksum does not match", func(w *world) {
			w.files.Admitted = []byte(`{"data":"{}","checksum":1}`)
		}},
		{"CPU nowhere", v1alpha1.ReasonContradiction, `"7"`, func(w *world) { w.cpus("0-6", nil) }},
		{"CPU twice", v1alpha1.ReasonContradiction, "entries[a][main]", func(w *world) { w.cpus("0-7", map[string]string{"a": "7"}) }},
		{"CPU beyond the machine", v1alpha1.ReasonContradiction, `8`, func(w *world) { w.cpus("0-8", nil) }},
		{"policy", v1alpha1.ReasonContradiction, `configured policy "static" differs from state checkpoint policy "none": drain the node, stop the kubelet, delete cpu_manager_state`, func(w *world) {
			w.files.CPU = []byte(`{"policyName":"none","defaultCpuSet":"","checksum":0}`)
		}},
		{"policy of memory", v1alpha1.ReasonContradiction, `configured policy "None" differs from state checkpoint policy "Static"`, func(w *world) {
			w.files.Memory = []byte(`{"policyName":"Static","machineState":{},"checksum":0}`)
		}},
		{"reserved CPU held", v1alpha1.ReasonContradiction, `not all reserved cpus: "0" are present in defaultCpuSet: "1-7"`, func(w *world) {
			w.cpus("1-7", map[string]string{"a": "0"})
			w.admitted("a")
			w.see("a", corev1.PodRunning)
		}},
		{"the end of a JSON value", v1alpha1.ReasonUnreadable, "a kubelet does not start with this file: unexpected end of JSON input", func(w *world) {
			w.files.CPU = []byte(`{"pol`)
		}},
		{"pod level", v1alpha1.ReasonUnsupported, "podEntries", func(w *world) {
			w.files.CPU = []byte(`{"policyName":"static","defaultCpuSet":"0-6","podEntries":{"a":{"cpuSet":"7"}},"checksum":3717688127}`)
		}},
		{"undescribed device", v1alpha1.ReasonDevicesUnknown, "x.y/other", func(w *world) { w.devices(map[string][]string{"x.y/d": {"d0"}, "x.y/other": {"o"}}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			tc.spoil(w)
			begun := w.clock
			for len(w.writes) < 2 {
				w.steps(1)
				if w.clock.Sub(begun) > time.Minute {
					t.Fatal("never said")
				}
			}
			w.wantReady(tc.reason, tc.message)
			w.readErr = nil
			w.files = kubeletstate.Raw{}
			w.cpus("0-7", nil)
			w.admitted()
			w.settle()
			w.wantReady(v1alpha1.ReasonConsistent, "")
		})
	}
}

// devices writes a kubelet_internal_checkpoint without allocations.
func (w *world) devices(registered map[string][]string) {
	w.t.Helper()
	w.allocated(registered, "null")
}

// allocated writes a kubelet_internal_checkpoint with these PodDeviceEntries.
func (w *world) allocated(registered map[string][]string, entries string) {
	w.t.Helper()
	text, err := json.Marshal(registered)
	if err != nil {
		w.t.Fatal(err)
	}
	for sum := uint64(0); ; {
		w.files.Devices = fmt.Appendf(nil, `{"Data":{"PodDeviceEntries":%s,"RegisteredDevices":%s},"Checksum":%d}`, entries, text, sum)
		_, err := kubeletstate.ParseDevices("f", w.files.Devices)
		if err == nil {
			return
		}
		// The error has the expected checksum.
		var e *kubeletstate.Error
		if !errors.As(err, &e) || sum != 0 {
			w.t.Fatal(err)
		}
		if _, err := fmt.Sscan(e.Want, &sum); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestUnhealthyDevicesAreRemembered(t *testing.T) {
	w := newWorld(t)
	w.devices(map[string][]string{"x.y/d": {"d0", "d1"}})
	w.settle()
	w.devices(map[string][]string{"x.y/d": {"d0"}})
	w.settle()
	want := []placement.Device{{ID: "d0", NUMA: 1, HasTopology: true}, {ID: "d1", NUMA: 2, HasTopology: true, Unhealthy: true}}
	if got := w.last().Report.Snapshot.Devices; len(got) != 1 || !reflect.DeepEqual(got[0].Devices, want) {
		t.Errorf("pools %+v, want %+v", got, want)
	}
	w.node.Status.Capacity["x.y/d"] = resource.MustParse("1") // the plugin has removed it
	w.settle()
	if got := w.last().Report.Snapshot.Devices; len(got[0].Devices) != 1 {
		t.Errorf("pools %+v, want d0 alone", got)
	}
}

// TestDevicesThatTheCheckpointLacks: two plugins register, and the kubelet last writes the data
// from before the second one. The file is then unchanged. The Node's capacity shows the devices
// some seconds later.
func TestDevicesThatTheCheckpointLacks(t *testing.T) {
	w := newWorld(t)
	w.noPlugin = true
	delete(w.node.Status.Capacity, "x.y/d")
	w.devices(map[string][]string{})
	w.settle()
	if got := w.last().Report.Snapshot.Devices; len(got) != 0 {
		t.Fatalf("pools %+v, want none", got)
	}
	w.noPlugin = false
	w.node.Status.Capacity["x.y/d"] = resource.MustParse("2")
	w.settle()
	want := []placement.Device{{ID: "d0", NUMA: 1, HasTopology: true}, {ID: "d1", NUMA: 2, HasTopology: true}}
	if got := w.last().Report.Snapshot.Devices; len(got) != 1 || got[0].Resource != "x.y/d" || !reflect.DeepEqual(got[0].Devices, want) {
		t.Errorf("pools %+v, want %+v", got, want)
	}
	w.noPlugin = true
	w.devices(map[string][]string{"x.y/e": {}}) // written again, with the current data
	w.settle()
	if got := w.last().Report.Snapshot.Devices; len(got) != 1 || got[0].Resource != "x.y/e" {
		t.Errorf("pools %+v, want those of x.y/e alone", got)
	}
}

// TestWorkloadPartitioning: a kubelet of OpenShift with workload partitioning keeps reserved CPUs
// out of the shared CPUs, although its configuration lacks strict-cpu-reservation.
func TestWorkloadPartitioning(t *testing.T) {
	w := newWorld(t)
	w.cpus("1-7", nil)
	w.settle()
	w.wantReady(v1alpha1.ReasonContradiction, `want CPUs "0" to be shared`)
	w.node.Status.Capacity["management.workload.openshift.io/cores"] = resource.MustParse("1000")
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	if got := w.last(); got.Spec.Config.CPUManagerPolicyOptions["strict-cpu-reservation"] != "true" {
		t.Errorf("options %v, want strict-cpu-reservation", got.Spec.Config.CPUManagerPolicyOptions)
	}
}

// TestAPluginThatIsLost: the kubelet does not write its checkpoint when a plugin is gone, and
// writes the same one when the plugin is back. Its Node shows the change some seconds later.
func TestAPluginThatIsLost(t *testing.T) {
	w := newWorld(t)
	expect := func(when string, healthy bool) {
		t.Helper()
		w.settle()
		want := []placement.Device{
			{ID: "d0", NUMA: 1, HasTopology: true, Unhealthy: !healthy}, {ID: "d1", NUMA: 2, HasTopology: true, Unhealthy: !healthy},
		}
		if got := w.last().Report.Snapshot.Devices; len(got) != 1 || !reflect.DeepEqual(got[0].Devices, want) {
			t.Errorf("%s: pools %+v, want %+v", when, got, want)
		}
	}
	w.node.Status.Allocatable = corev1.ResourceList{"x.y/d": resource.MustParse("2")}
	w.devices(map[string][]string{"x.y/d": {"d0", "d1"}})
	expect("registered", true)
	w.noPlugin = true
	w.m.restarted()
	expect("a kubelet that starts, whose Node offers what the one before did", true)
	w.node.Status.Allocatable["x.y/d"] = resource.MustParse("0")
	expect("the plugin is gone", false)
	w.noPlugin = false
	expect("it is back, and the Node does not say so yet", true)
	w.noPlugin = true
	expect("it has gone again", false)
	w.noPlugin = false
	expect("it is back again", true)
	w.node.Status.Allocatable["x.y/d"] = resource.MustParse("2")
	expect("it is back", true)
}

func TestFailedWritesAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.publishErr = errors.New("the server is away")
	var waits []time.Duration
	for range 12 {
		next := w.m.step(context.Background())
		w.clock = w.clock.Add(max(next.after, time.Second))
		waits = append(waits, next.after)
	}
	if last := waits[len(waits)-1]; last < 5*time.Second || last > 40*time.Second {
		t.Errorf("waits %v, want them to grow to 30 s", waits)
	}
	w.publishErr = nil
	w.settle()
	w.wantWrites(1)
	w.wantReady(v1alpha1.ReasonConsistent, "")
}

func TestGoesOnFromAnEarlierReport(t *testing.T) {
	w := newWorld(t)
	w.see("b", corev1.PodRunning)
	w.see("a", corev1.PodRunning)
	w.admitted("a", "b")
	w.devices(map[string][]string{"x.y/d": {"d0", "d1"}})
	w.settle()
	earlier := w.writes[0].DeepCopy()
	earlier.Status.Sequence = 41
	slices.Reverse(earlier.Status.Pods)

	next := newWorld(t)
	next.stored = earlier
	next.m.pods = w.m.pods
	next.files = w.files
	next.devices(map[string][]string{"x.y/d": {"d0"}}) // d1 has become unhealthy while no agent ran
	next.settle()
	next.wantWrites(1)
	next.wantPods("b::", "a::")
	n := next.last()
	if n.Report.Sequence != 42 || len(n.Report.Snapshot.Devices[0].Devices) != 2 {
		t.Errorf("got %+v", n.Report)
	}
}

func TestOvertakenByAnother(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.publishErr = ErrStale
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.see("a", corev1.PodRunning)
	w.steps(4)
	w.stored = w.writes[0].DeepCopy()
	w.stored.Status.Sequence = 100
	w.publishErr = nil
	w.settle()
	if n := w.last(); n.Report.Sequence != 101 {
		t.Errorf("sequence %d, want 101", n.Report.Sequence)
	}
}

// TestReportThatWasDeleted is written again. The agent does not know who deleted it, and why.
func TestReportThatWasDeleted(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.clock = w.clock.Add(assureEvery - time.Second)
	w.settle()
	w.wantWrites(1)
	w.stored = nil
	w.clock = w.clock.Add(time.Second)
	w.settle()
	w.wantWrites(2)
	w.clock = w.clock.Add(assureEvery)
	w.settle()
	w.wantWrites(2)
}

// TestNodeThatWasRegisteredAnew: objects of the old Node are garbage collected, so that the report
// gets the new Node as its owner.
func TestNodeThatWasRegisteredAnew(t *testing.T) {
	w := newWorld(t)
	w.node.UID = "first"
	w.settle()
	w.node = w.node.DeepCopy()
	w.node.UID = "second"
	w.settle()
	w.wantWrites(2)
	if got := w.stored.OwnerReferences[0].UID; got != "second" {
		t.Errorf("belongs to %q", got)
	}
	w.settle()
	w.wantWrites(2)
}

func TestRateOfWrites(t *testing.T) {
	w := newWorld(t)
	w.settle()
	begun, n := w.clock, len(w.writes)
	for i := 0; w.clock.Sub(begun) < 2*time.Second; i++ {
		w.cpus(fmt.Sprintf("0,%d-7", 2+i%5), map[string]string{"a": fmt.Sprintf("1-%d", 1+i%5)})
		w.admitted("a")
		w.see("a", corev1.PodRunning)
		w.steps(3)
	}
	if got := len(w.writes) - n; got > 20 || got < 10 {
		t.Errorf("%d writes in 2 s, want about one in 100 ms", got)
	}
}

func TestAmounts(t *testing.T) {
	w := newWorld(t)
	w.m.out.amounts = &amountsWriter{zones: true, cpus: true, devices: true, running: w.m.pods.running}
	w.settle()
	w.settle()
	if len(w.amounts) != 1 || len(w.amounts[0].Zones) != 2 || len(w.numatopologies) != 1 || len(w.told) != 1 {
		t.Fatalf("got %d objects", len(w.amounts))
	}
	w.see("a", corev1.PodRunning)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.settle()
	if len(w.amounts) != 2 || w.amounts[1].Zones[0].Resources[0].Available.Value() != 1 {
		t.Errorf("got %+v", w.amounts)
	}
	if len(w.told) != 1 {
		t.Errorf("%d Devices, though the machine is as it was", len(w.told))
	}
	if len(w.numatopologies) != 2 || w.numatopologies[1].Spec.Resources["cpu"].Allocatable != "0,3-7" {
		t.Fatalf("got %+v", w.numatopologies)
	}
	if held := w.numatopologies[1].Spec.PodAllocations; len(held) != 1 || held[0].ContainerAllocations[0].Allocations["cpu"] != "1-2" {
		t.Errorf("got %+v", held)
	}
	// While the checkpoints cannot be read, the amounts that are free next to the current pods are
	// not published.
	books := w.files.CPU
	w.files.CPU = []byte("{")
	w.see("b", corev1.PodRunning)
	for n := w.last(); n.Report.Ready().Status == metav1.ConditionTrue; n = w.last() {
		w.steps(1)
	}
	w.steps(10)
	if len(w.amounts) != 2 {
		t.Errorf("%d NodeResourceTopologies: want the two of before", len(w.amounts))
	}
	w.files.CPU = books
	w.settle()
	if len(w.amounts) != 3 {
		t.Errorf("%d NodeResourceTopologies: want a third, with the pod that has come", len(w.amounts))
	}
}

func TestKubeletRestart(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.m.restarted() // its version is known only later
	w.settle()
	w.node.Status.NodeInfo.KubeletVersion = "v1.35.2"
	w.settle()
	w.wantWrites(2)
	if n := w.last(); n.Spec.Config.Version != placement.V135 {
		t.Errorf("version %d", n.Spec.Config.Version)
	}
}

// TestKubeletThatStartsHasClearedNothing: the resources of an ended pod count as used while the
// kubelet is gone, and until it has read its pods.
func TestKubeletThatStartsHasClearedNothing(t *testing.T) {
	w := newWorld(t)
	w.m.presence.is(true)
	w.see("a", corev1.PodRunning)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.settle()
	w.see("a", corev1.PodSucceeded)
	w.settle()
	w.wantPods("a:Ended:1-2")
	w.m.presence.is(false)
	w.steps(20)
	w.wantPods("a::1-2")
	w.m.presence.is(true)
	w.steps(20)
	w.wantPods("a::1-2")
	w.clock = w.clock.Add(evidenceByTime)
	w.steps(20)
	w.wantPods("a:Ended:1-2")
}

// TestKubeletThatHasCleared: the kubelet has read its pods when an ended pod has lost its CPUs.
// Nothing else shows this.
func TestKubeletThatHasCleared(t *testing.T) {
	withoutA := func(w *world) { w.cpus("0-2,7", map[string]string{"b": "3-4", "stranger": "5-6"}) }
	for name, c := range map[string]struct {
		happens func(*world)
		want    bool
	}{
		"a pod that has ended loses its CPUs":               {withoutA, true},
		"a pod that the API does not have loses its CPUs":   {func(w *world) { w.cpus("0,5-7", map[string]string{"a": "1-2", "b": "3-4"}) }, true},
		"a pod that runs loses its CPUs":                    {func(w *world) { w.see("a", corev1.PodRunning); w.steps(10); withoutA(w) }, false},
		"a pod turns out to run":                            {func(w *world) { w.see("a", corev1.PodRunning) }, false},
		"nothing happens":                                   {func(*world) {}, false},
		"the file is removed":                               {func(w *world) { w.files.CPU = nil }, false},
		"the file is removed, and another one is written":   {func(w *world) { w.files.CPU = nil; w.steps(10); w.cpus("0-7", nil) }, false},
		"the kubelet starts again":                          {func(w *world) { withoutA(w); w.steps(10); w.m.restarted() }, false},
		"the CPUs are lost before the kubelet starts again": {func(w *world) { withoutA(w); w.m.presence.is(false); w.m.presence.is(true) }, false},
		"the CPUs are lost while the kubelet is away": {func(w *world) {
			w.m.presence.is(false)
			w.steps(10)
			withoutA(w)
			w.steps(10)
			w.m.presence.is(true)
		}, false},
		"the kubelet starts again while its books are read": {func(w *world) {
			w.m.books.read = func() (kubeletstate.Raw, error) {
				w.m.presence.started()
				w.m.books.read = func() (kubeletstate.Raw, error) { return w.files, nil }
				return w.files, nil
			}
			w.steps(1)
			withoutA(w)
		}, false},
	} {
		w := newWorld(t)
		w.m.presence.is(false)
		w.see("a", corev1.PodSucceeded)
		w.see("b", corev1.PodSucceeded)
		w.cpus("0,7", map[string]string{"a": "1-2", "b": "3-4", "stranger": "5-6"})
		w.m.presence.is(true)
		w.steps(10)
		c.happens(w)
		w.steps(10)
		if got := !w.m.presence.booting(); got != c.want {
			t.Errorf("%s: the kubelet has read its pods: %v, want %v", name, got, c.want)
		}
	}
}

// TestPinned distinguishes CPUs and memory, because the kubelet may remove only one of them.
func TestPinned(t *testing.T) {
	c := &checkpoints{state: kubeletstate.State{
		CPU:    &kubeletstate.CPUState{Entries: []kubeletstate.CPUEntry{{PodUID: "a", Container: "c"}, {PodUID: "a", Container: "d"}}},
		Memory: &kubeletstate.MemoryState{Entries: []kubeletstate.MemoryEntry{{PodUID: "a", Container: "c"}, {PodUID: "b", Container: "c"}}},
	}}
	want := map[pin]bool{{"a", kubeletstate.CPUFile}: true, {"a", kubeletstate.MemoryFile}: true, {"b", kubeletstate.MemoryFile}: true}
	if got := c.pinned(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := c.holders(), map[string]bool{"a": true, "b": true}; !maps.Equal(got, want) {
		t.Errorf("holders %v, want %v", got, want)
	}
}

// TestKubeletAndAgentStartTogether: an agent that has just started does not know when the kubelet
// started. The API does not show pods that were deleted before.
func TestKubeletAndAgentStartTogether(t *testing.T) {
	w := newWorld(t)
	w.m.presence.is(false)
	w.see("a", corev1.PodSucceeded)
	w.cpus("0,5-7", map[string]string{"a": "1-2", "gone": "3-4"})
	w.admitted("a", "gone")
	held := func(when string) {
		t.Helper()
		w.steps(20)
		for _, p := range w.last().Report.Pods {
			if p.State == v1alpha1.PodEnded {
				t.Errorf("%s: %+v", when, p)
			}
		}
	}
	for w.clock = w.clock.Add(time.Second); len(w.writes) == 0; {
		w.steps(1)
	}
	held("before the kubelet was seen")
	w.m.presence.is(true)
	held("when its PodResources API answers")
	w.clock = w.clock.Add(evidenceByTime - time.Millisecond)
	w.m.restarted() // its runtime is available at last
	held("when it makes its socket")
	w.clock = w.clock.Add(evidenceByTime)
	w.steps(20)
	w.wantPods("gone:Ended:3-4", "a:Ended:1-2")
}

// TestAgentJoinsAKubelet: if the kubelet has been running for long, the agent does not wait.
func TestAgentJoinsAKubelet(t *testing.T) {
	w := newWorld(t)
	w.m.presence.is(false)
	w.m.presence.age = func() time.Duration { return evidenceByTime }
	w.see("a", corev1.PodSucceeded)
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.steps(20)
	w.wantPods("a::1-2")
	w.m.presence.is(true)
	w.steps(20)
	w.wantPods("a:Ended:1-2")
}

// TestFollowKubelet: the agent notices at once that a kubelet is gone, and that another one runs.
func TestFollowKubelet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	conn, err := DialPodResources(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	told := make(chan bool)
	go conn.Follow(t.Context(), func(there bool) { told <- there })
	for range 3 {
		kubelet := grpc.NewServer()
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go kubelet.Serve(l)
		if !<-told {
			t.Error("the kubelet is there, and is said to be gone")
		}
		kubelet.Stop()
		if <-told {
			t.Error("the kubelet is gone, and is said to be there")
		}
	}
}

// TestWithoutAdmittedFile: kubelets without the file do not report which pods they have admitted,
// but the status of the pods shows it.
func TestWithoutAdmittedFile(t *testing.T) {
	for name, change := range map[string]func(*world){
		"absent": func(w *world) { w.files.Admitted = nil },
		"left over": func(w *world) {
			w.node.Status.NodeInfo.KubeletVersion = "v1.34.2"
			w.config.FeatureGates = map[string]bool{"InPlacePodVerticalScaling": false}
			w.admitted("somebody")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			w.see("a", corev1.PodPending)
			w.cpus("0,3-7", map[string]string{"a": "1-2"})
			w.steps(10)
			w.wantWrites(0)
			pod := w.pod("a", corev1.PodPending)
			pod.Status.StartTime = &pod.CreationTimestamp // this is also set for a pod that a starting kubelet refuses
			w.m.pods.see(pod, w.clock)
			w.steps(10)
			w.wantWrites(0)
			pod = pod.DeepCopy()
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
			w.m.pods.see(pod, w.clock)
			w.settle()
			w.wantPods("a::1-2")
		})
	}
}

// TestWholesAreReported: the resources of a pod as a whole are reported, and the parts of its
// containers.
func TestWholesAreReported(t *testing.T) {
	w := newWorld(t)
	w.config.FeatureGates, w.config.TopologyManagerScope = map[string]bool{"PodLevelResourceManagers": true}, "pod"
	w.see("a", corev1.PodRunning)
	w.admitted("a")
	inner := `{"policyName":"static","defaultCpuSet":"0,4-7","entries":{"a":{"main":"1-2"}},"podEntries":{"a":{"cpuSet":"1-3"}}}`
	w.node.Status.NodeInfo.KubeletVersion = "v1.37.2"
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(inner))
	file, err := json.Marshal(map[string]any{"data": inner, "dataChecksum": h.Sum32()})
	if err != nil {
		t.Fatal(err)
	}
	w.files.CPU = file
	w.settle()
	w.wantReady(v1alpha1.ReasonConsistent, "")
	pods := w.last().Report.Snapshot.Pods
	if len(pods) != 1 || pods[0].Whole == nil || pods[0].Whole.CPUs.String() != "1-3" || pods[0].Containers[0].CPUs.String() != "1-2" {
		t.Errorf("reported %+v", pods)
	}
}

// TestComplain: an error that repeats is logged once, and its end is logged once.
func TestComplain(t *testing.T) {
	var out strings.Builder
	c := newComplaints(slog.New(slog.NewTextHandler(&out, nil)))
	for _, err := range []error{nil, errors.New("away"), errors.New("away"), errors.New("gone"), nil, nil, errors.New("gone")} {
		c.about("nothing is heard", err)
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		got = append(got, line[strings.Index(line, "level="):])
	}
	want := []string{
		`level=WARN msg="nothing is heard" error=away`, `level=WARN msg="nothing is heard" error=gone`,
		`level=INFO msg="over: nothing is heard"`, `level=WARN msg="nothing is heard" error=gone`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRestoredReportIsComparedFirst: the API has the report of an hour ago. It is not confirmed
// before it has been compared with the node, however long this takes.
func TestRestoredReportIsComparedFirst(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.see("a", corev1.PodRunning)
	w.settle()
	w.wantWrites(2)
	w.clock = w.clock.Add(assureEvery)
	w.settle()
	w.stored, w.publishErr = w.writes[0], errors.New("etcdserver: leader changed")
	w.clock = w.clock.Add(assureEvery)
	w.steps(3)
	if at, sequence := w.m.out.vouch.holds(); !at.IsZero() {
		t.Errorf("report %d holds, says the agent, which could not write that it does not", sequence)
	}
	w.publishErr = nil
	w.settle()
	w.wantPods("a::1-2")
	if at, sequence := w.m.out.vouch.holds(); at.IsZero() || sequence != w.last().Report.Sequence || sequence <= 2 {
		t.Errorf("report %d holds since %v: want one after those that had been written before", sequence, at)
	}
}

// TestArrivalsDoNotVouchForTheUnknown: while a pod is being admitted, the agent does not confirm a
// report that an earlier agent has written.
func TestArrivalsDoNotVouchForTheUnknown(t *testing.T) {
	w := newWorld(t)
	w.settle()
	earlier := w.stored
	w = newWorld(t)
	w.stored = earlier
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.see("a", corev1.PodPending) // its checkpoints are incomplete
	w.steps(4)
	if at, sequence := w.m.out.vouch.holds(); !at.IsZero() {
		t.Errorf("report %d holds, says an agent that has not compared it", sequence)
	}
}

// loseReportOfA runs pod a, and loses every answer to its report.
func (w *world) loseReportOfA() {
	w.publishErr = errors.New("timeout")
	w.cpus("0,3-7", map[string]string{"a": "1-2"})
	w.admitted("a")
	w.see("a", corev1.PodRunning)
	w.steps(4)
}

// TestLostAnswerKeepsItsNumber: a report whose write failed may have been stored. The next report
// has another number, because a reader that has the first one would ignore it.
func TestLostAnswerKeepsItsNumber(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.loseReportOfA()
	lost := w.m.out.numbered
	w.cpus("0-7", nil)
	w.publishErr = nil
	w.see("b", corev1.PodRunning)
	w.admitted("b")
	w.settle()
	if got := w.last().Report.Sequence; lost < 2 || got <= lost {
		t.Errorf("report %d after one that was sent as %d", got, lost)
	}
}

// TestLostAnswerToTheFirst is the same for an object that did not exist before.
func TestLostAnswerToTheFirst(t *testing.T) {
	w := newWorld(t)
	w.publishErr = errors.New("timeout")
	w.steps(4)
	lost := w.m.out.numbered
	w.publishErr = nil
	w.settle()
	if got := w.last().Report.Sequence; lost < 1 || got <= lost {
		t.Errorf("report %d after one that was sent as %d", got, lost)
	}
	w.stored = nil
	w.clock = w.clock.Add(assureEvery)
	w.settle()
	if got := w.last().Report.Sequence; got != 1 {
		t.Errorf("report %d in an object made anew", got)
	}
}

// TestLostAnswerOfAChangeThatPassed: the report that may have been stored is outdated, because the
// node is again as in the report before it.
func TestLostAnswerOfAChangeThatPassed(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.loseReportOfA()
	w.publishErr = nil
	w.m.pods.lose(w.pod("a", corev1.PodRunning), w.clock)
	w.cpus("0-7", nil)
	w.admitted()
	w.settle()
	w.wantWrites(2)
	w.wantPods()
}

// TestNumberGivenTwice: the API's report has the number of the published one, but other content.
func TestNumberGivenTwice(t *testing.T) {
	w := newWorld(t)
	w.settle()
	other := w.stored.DeepCopy()
	other.Status.ObservedTime.Time = other.Status.ObservedTime.Add(-time.Hour)
	other.Status.SharedCPUs = "0-3"
	w.stored = other
	w.clock = w.clock.Add(assureEvery)
	w.settle()
	w.wantWrites(2)
}

// TestAForgedMirrorStandsForNobody: every user who may create pods can create one that claims to
// mirror another pod. The kubelet deletes the forged pod. The real pod must then not be reported as
// ended.
func TestAForgedMirrorStandsForNobody(t *testing.T) {
	for _, of := range []string{"a", "manifest-hash"} {
		w := newWorld(t)
		real := w.pod("a", corev1.PodRunning)
		if of != "a" {
			real.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: of}
		}
		forged := w.pod("forged", corev1.PodRunning)
		forged.Name, forged.Annotations = "forged", map[string]string{corev1.MirrorPodAnnotationKey: of}
		forged.CreationTimestamp = metav1.NewTime(real.CreationTimestamp.Add(time.Hour))
		w.m.pods.see(real, w.clock)
		w.cpus("0,3-7", map[string]string{of: "1-2"})
		w.admitted(of)
		w.settle()
		w.wantPods("a::1-2")
		for range 2 {
			w.m.pods.see(forged, w.clock)
			w.settle()
			w.wantPods("a::1-2")
			w.m.pods.lose(forged, w.clock)
			w.settle()
			w.wantPods("a::1-2")
		}
		if n := len(w.m.pods.left); n > 0 {
			t.Errorf("%s: %d pods are remembered that have left: want none", of, n)
		}
		// The agent starts, and first sees the forged pod.
		w.m.pods = newPodBook(DefaultRivals())
		w.m.pods.see(forged, w.clock)
		w.m.pods.see(real, w.clock)
		w.settle()
		w.wantPods("a::1-2")
		w.m.pods.lose(real, w.clock)
		if of == "a" && !w.m.pods.all()["a"].ended.Equal(w.clock) {
			t.Errorf("the pod is gone, and its forged mirror keeps it: %+v", w.m.pods.all()["a"])
		}
	}
}

// TestPodsThatHaveLeftAreBounded, even if no report can be made.
func TestPodsThatHaveLeftAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 3 * maxLeft {
		pod := w.pod(fmt.Sprint("p", i), corev1.PodRunning)
		w.m.pods.see(pod, w.clock)
		w.clock = w.clock.Add(time.Second)
		w.m.pods.lose(pod, w.clock)
	}
	last := fmt.Sprint("p", 3*maxLeft-1)
	if all := w.m.pods.all(); len(all) != maxLeft || all[last].uid != last {
		t.Errorf("%d pods are remembered: want the last %d", len(all), maxLeft)
	}
}

// TestKubeletStartIsReported: a new kubelet causes a new report, even if nothing else has changed.
// While there is no kubelet, the start of the last one is reported.
func TestKubeletStartIsReported(t *testing.T) {
	w := newWorld(t)
	first, second := w.clock.Add(-time.Hour), w.clock.Add(-time.Minute)
	at := first
	w.m.out.started = func() time.Time { return at }
	for _, c := range []struct {
		at, want time.Time
		written  bool
	}{{first, first, true}, {first, first, false}, {time.Time{}, first, false}, {second, second, true}} {
		at = c.at
		before := len(w.writes)
		w.m.notice()
		w.settle()
		if got := w.last().Report.KubeletStarted; !got.Equal(c.want) || len(w.writes) > before != c.written {
			t.Errorf("at %v: reported %v, written %v; want %v", c.at, got, len(w.writes) > before, c.want)
		}
	}
}
