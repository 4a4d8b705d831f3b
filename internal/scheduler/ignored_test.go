package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

// TestSharesForCPUsAreTold: a pod without memory that gets a CPU by Koordinator's proposal is told
// that it shares CPUs, if every kubelet decides for itself.
func TestSharesForCPUsAreTold(t *testing.T) {
	for _, obeys := range []bool{false, true} {
		f := newFixture(t)
		if obeys {
			f.obeys()
		}
		p := with(pinned("x", 1), map[string]string{"scheduling.koordinator.sh/numa-topology-spec": `{"numaTopologyPolicy":"SingleNUMANode"}`})
		p.Status.QOSClass = corev1.PodQOSBurstable
		delete(p.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory)
		f.PreFilter(t.Context(), newCycleData(), p, nil)
		select {
		case e := <-f.events.Events:
			if obeys || !strings.Contains(e, "CPUsShared") || !strings.Contains(e, "numa-topology-spec") {
				t.Errorf("obeying %t: told %q", obeys, e)
			}
		default:
			if !obeys {
				t.Error("nothing is told")
			}
		}
	}
}

// TestSharesBesideNodesThatObey: if other nodes obey, a pod that wants exclusive CPUs is told when
// a node is chosen whose kubelet gives it none. It is not told if Berth decides on the chosen node.
func TestSharesBesideNodesThatObey(t *testing.T) {
	f := newFixture(t)
	f.obeys()
	p := with(burstable("x", "2"), map[string]string{"berth.dev/cpus": "full-cores"})
	for _, c := range []struct {
		node string
		told bool
	}{{"n", false}, {"with-a-kubelet", true}} {
		f.tellShared(p, c.node)
		select {
		case e := <-f.events.Events:
			if !c.told || !strings.Contains(e, "CPUsShared with-a-kubelet decides itself: ") || !strings.Contains(e, "berth.dev/cpus") {
				t.Errorf("%s: told %q", c.node, e)
			}
		default:
			if c.told {
				t.Errorf("%s: nothing is told", c.node)
			}
		}
	}
}

// TestWholesDoNotShare: a kubelet that places pods by spec.resources gives such a pod exclusive
// CPUs.
func TestWholesDoNotShare(t *testing.T) {
	f := newFixture(t)
	f.obeys()
	p := with(pinned("x", 2), map[string]string{"berth.dev/cpus": "full-cores"})
	p.Spec.Resources = p.Spec.Containers[0].Resources.DeepCopy()
	for _, gate := range []bool{false, true} {
		f.useMachine("package:2 numa:1 core:4 pu:2 mem:16Gi dist:10,21")
		f.spec.KubeletVersion, f.spec.Config.Version = "v1.37.2", placement.V137
		f.spec.Config.FeatureGates, f.spec.Config.TopologyManagerScope = map[string]bool{"PodLevelResourceManagers": gate}, "pod"
		name := fmt.Sprint("gate-", gate)
		f.feed.ReportSeen(f.reportOf(name))
		f.tellShared(p, name)
		select {
		case e := <-f.events.Events:
			if gate || !strings.Contains(e, "only a kubelet with the feature gate PodLevelResourceManagers") {
				t.Errorf("gate %t: told %q", gate, e)
			}
		default:
			if !gate {
				t.Error("nothing is told")
			}
		}
	}
}

// TestRepeatsAreTold: a pod that its kubelet places as a whole is told what happens to it after a
// kubelet restart.
func TestRepeatsAreTold(t *testing.T) {
	f := newFixture(t)
	for _, d := range []placement.Decision{{}, {Whole: &placement.Whole{}}} {
		f.tellRepeats(pinned("x", 1), "n", &d)
		select {
		case e := <-f.events.Events:
			if d.Whole == nil || !strings.Contains(e, "DefectRestartRepeats n: ") || !strings.Contains(e, "kubernetes#140989") {
				t.Errorf("%+v: told %q", d, e)
			}
		default:
			if d.Whole != nil {
				t.Error("nothing is told")
			}
		}
	}
}

// TestIgnoredKeysAreTold: once per pod, on the first attempt, even if Berth does not decide about
// the pod.
func TestIgnoredKeysAreTold(t *testing.T) {
	condition := func(reason string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady}, {Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
	}
	for _, tc := range []struct {
		name, key  string
		conditions []corev1.PodCondition
		shares     bool
		label      bool
		gang       bool
		told       bool
	}{
		{name: "first attempt", key: "berth.dev/polcy", told: true},
		{name: "another dialect", key: "scheduling.koordinator.sh/gpu-partition-spec", told: true},
		{name: "a pod that shares CPUs", key: "scheduling.koordinator.sh/gpu-partition-spec", shares: true, told: true},
		{name: "a member of a gang", key: "berth.dev/polcy", gang: true, told: true},
		{name: "second attempt", key: "berth.dev/polcy", conditions: condition(corev1.PodReasonUnschedulable)},
		{name: "after its gate", key: "berth.dev/polcy", conditions: condition(corev1.PodReasonSchedulingGated), told: true},
		{name: "what is read", key: "berth.dev/policy"},
		{name: "a label", key: "berth.dev/policy", label: true, told: true},
		{name: "another dialect's label", key: "koordinator.sh/priority", label: true, told: true},
	} {
		f := newFixture(t)
		p := pinned("x", 2)
		if tc.shares {
			p.Status.QOSClass = corev1.PodQOSBestEffort
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		p.Status.Conditions = tc.conditions
		reason := "AnnotationIgnored"
		if tc.label {
			p.Labels, reason = map[string]string{tc.key: "restricted"}, "LabelIgnored"
		} else {
			p.Annotations = map[string]string{tc.key: "restricted"}
		}
		if tc.gang {
			p.Annotations[wire.GangAnnotation], p.Annotations[wire.GangMinimumAnnotation] = "g", "1"
		}
		f.PreFilter(t.Context(), newCycleData(), p, nil)
		select {
		case e := <-f.events.Events:
			if !tc.told || !strings.Contains(e, reason) || !strings.Contains(e, tc.key) {
				t.Errorf("%s: told %q", tc.name, e)
			}
		default:
			if tc.told {
				t.Errorf("%s: nothing is told", tc.name)
			}
		}
	}
}

// keyedEvents keeps the first note of all events with the same reason and action, as the API server
// does.
type keyedEvents struct {
	events.EventRecorder
	notes map[[2]string]string
}

func (k keyedEvents) Eventf(_, _ runtime.Object, _, reason, action, note string, args ...any) {
	if key := [2]string{reason, action}; k.notes[key] == "" {
		k.notes[key] = fmt.Sprintf(note, args...)
	}
}

// TestWordsOfSeveralDialectsAreTold: each dialect has its own event, which no other event hides.
func TestWordsOfSeveralDialectsAreTold(t *testing.T) {
	f := newFixture(t)
	told := keyedEvents{notes: map[[2]string]string{}}
	f.core.events = told
	words := map[string]string{
		"berth.dev/polcy": "x", "berth.dev/devices": "near", "volcano.sh/cooldown-time": "1h", "gpu-fraction": "0.5",
		"katalyst.kubewharf.io/qos_level": "dedicated_cores", "quota.scheduling.koordinator.sh/name": "q",
	}
	f.tellIgnored(with(pinned("x", 2), words))
	all := fmt.Sprint(told.notes)
	for word := range words {
		if !strings.Contains(all, word) {
			t.Errorf("%s is in no event: %q", word, told.notes)
		}
	}
}

// virtualNodes is a snapshot with one node on which no agent is expected.
type virtualNodes struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	info fwk.NodeInfo
}

func (v *virtualNodes) SnapshotSharedLister() fwk.SharedLister { return v }
func (v *virtualNodes) NodeInfos() fwk.NodeInfoLister          { return v }
func (v *virtualNodes) Get(string) (fwk.NodeInfo, error)       { return v.info, nil }

// TestNodesWithoutAgents: a node that matches the argument's selector admits a pod that could be
// pinned, as long as no agent has reported there.
func TestNodesWithoutAgents(t *testing.T) {
	for _, tc := range []struct {
		selector string
		reports  bool
		passes   bool
	}{{"", false, false}, {"type=virtual", false, true}, {"type=other", false, false}, {"type=virtual", true, false}} {
		f := newFixture(t)
		f.args.NodesWithoutAgents = tc.selector
		var err error
		if f.agentless, err = f.args.withoutAgents(); err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual-1", Labels: map[string]string{"type": "virtual"}}}
		if tc.reports {
			node.Name = "n"
			f.feed.ReportSeen(f.topology())
		}
		info := framework.NewNodeInfo()
		info.SetNode(node)
		f.handle = &virtualNodes{info: info}
		state, pod := newCycleData(), pinned("x", 99)
		c := f.attempt(pod, requestOf(t, pod))
		state.Write(cycleKey, c)
		filter := f.Filter(t.Context(), state, pod, info)
		reserve := f.Reserve(t.Context(), state, pod, node.Name)
		if filter.IsSuccess() != tc.passes || reserve.IsSuccess() != tc.passes || c.decided() {
			t.Errorf("%+v: Filter %v, Reserve %v, decided %t", tc, filter, reserve, c.decided())
		}
		if hint, _ := f.afterNodeAdd(klog.Background(), pod, nil, node); (hint == fwk.Queue) != tc.passes {
			t.Errorf("%+v: the node comes, and the pod is told %v", tc, hint)
		}
	}
	for _, wrong := range []string{"=virtual", "type in (a", "a=b=c"} {
		if _, err := (&Args{NodesWithoutAgents: wrong}).withoutAgents(); err == nil || !strings.Contains(err.Error(), "nodesWithoutAgents") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	empty, err := (&Args{NodesWithoutAgents: "type="}).withoutAgents()
	if err != nil || !empty.Matches(labels.Set{"type": ""}) || empty.Matches(labels.Set{"type": "virtual"}) || empty.Matches(labels.Set{}) {
		t.Errorf("an empty value: %v, %v: want the nodes whose label is empty", empty, err)
	}
}

// TestSharedPolicyIsTold: a pod that requests a policy, or its own memory, without being Guaranteed
// is told what is missing in which container.
func TestSharedPolicyIsTold(t *testing.T) {
	for _, key := range []string{"berth.dev/policy", "berth.dev/memory"} {
		f := newFixture(t)
		value := map[string]string{"berth.dev/policy": "restricted", "berth.dev/memory": "pinned"}[key]
		f.PreFilter(t.Context(), newCycleData(), with(burstable("x", "2"), map[string]string{key: value}), nil)
		select {
		case e := <-f.events.Events:
			if !strings.Contains(e, "CPUsShared") || !strings.Contains(e, key) || !strings.Contains(e, "has no limit") {
				t.Errorf("%s: told %q", key, e)
			}
		default:
			t.Errorf("%s: nothing is told", key)
		}
	}
}
