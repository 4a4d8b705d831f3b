package deploy

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/berth-dev/berth/internal/wire"
)

func podRequest(now, before map[string]any) admission.Attributes {
	object := func(annotations map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "a", "namespace": "ns", "annotations": annotations}}}
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	by := &user.DefaultInfo{Name: "jane"}
	if before == nil {
		return admission.NewAttributesRecord(object(now), nil, kind, "ns", "a", resource, "", admission.Create, &metav1.CreateOptions{}, false, by)
	}
	return admission.NewAttributesRecord(object(now), object(before), kind, "ns", "a", resource, "", admission.Update, &metav1.UpdateOptions{}, false, by)
}

// unreadable returns the scheduler's error about annotations; nil if it can read them.
func unreadable(annotations map[string]string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	_, err := wire.ReadRules(pod)
	_, gangErr := wire.ReadMembership(pod)
	_, matesErr := wire.ReadMates(pod)
	return cmp.Or(err, gangErr, matesErr)
}

// TestWishesAreKnownWords: the API server refuses exactly the values that the scheduler could not
// read, with the same text.
func TestWishesAreKnownWords(t *testing.T) {
	const file = "placement-wishes.yaml"
	words := []string{"", "full-cores", "full-cores,required", "full-cores,preferred", "full-cores,", "spread", "spread,preferred", "shares", "shares,required",
		"core", "core,required", "numa,preferred", "numa,maybe", "required", "preferred", "pinned", "Pinned", "pinned ", "x\nspread", "spread\n",
		"same-switch", "same-root,required", "one-switch,preferred", "one-root", "same-numa", "one-switch,maybe", "one-per-card", "one-per-card,preferred", "near", "near\n", "near,required"}
	words = append(words, "none", "single-numa-node,scope=pod", "single-numa-node,", "nonsense", "nonsense,scope=pod", "restricted,scope=node", "none,scope=pod,x",
		"train-1", "Train 1", "a.b", "a..b", "-a", strings.Repeat("a", 253), strings.Repeat("a", 254), "1", "4096", "4097", "0", "-1", "+7", "007", "three", "1.5", "99999999999999999999",
		"*", "preferred: *", "prefered: *", "preferred:", "train-1, train-2", "train-1,,train-2", "preferred: train-1,*", strings.Repeat("a,", 63)+"a", strings.Repeat("a,", 64)+"a")
	words = append(words, "9", "10", "59", "60", "64", "65", "99", "100", "02", "+2", "2 ", "2,required", "2\n",
		"perNUMANode=1", "perNUMANode=64", "perNUMANode=65", "perNUMANode=0", "perNUMANode=02", "perNUMANode=2,required", "perNUMANode=2\n")
	refused := 0
	for _, key := range slices.Concat(wire.WishKeys, wire.MateKeys, []string{wire.PolicyAnnotation, wire.GangAnnotation, wire.GangMinimumAnnotation}) {
		for _, word := range words {
			annotations := map[string]string{key: word}
			switch {
			case key == wire.GangAnnotation:
				annotations[wire.GangMinimumAnnotation] = "2"
			case strings.HasPrefix(key, wire.GangAnnotation):
				annotations[wire.GangAnnotation] = "z"
				annotations[wire.GangMinimumAnnotation] = cmp.Or(annotations[wire.GangMinimumAnnotation], "2")
			}
			annotations[key] = word
			err := unreadable(annotations)
			said := map[string]any{}
			for k, v := range annotations {
				said[k] = v
			}
			got := denied(t, file, podRequest(said, nil))
			if len(got) > 0 != (err != nil) {
				t.Errorf("%s: %q: the API server says %q, the scheduler %v", key, word, got, err)
			}
			wrong := new(wire.FieldError)
			if !errors.As(err, &wrong) {
				continue
			}
			value := "\"" + word + "\": "
			if len(word) > 64 {
				value = "\"" + word[:64] + "...\": "
			}
			if want := "metadata.annotations[" + key + "]: " + value + "want " + wrong.Want; strings.Join(got, "") != want {
				t.Errorf("%s: %q: told %q, want %q", key, word, got, want)
			}
			refused += len(got)
		}
	}
	if refused < 200 {
		t.Errorf("%d words refused: want more", refused)
	}
	err := unreadable(map[string]string{wire.GangAnnotation: "z"})
	if got := strings.Join(denied(t, file, podRequest(map[string]any{wire.GangAnnotation: "z"}, nil)), "; "); err == nil || !strings.Contains(err.Error(), got) || !strings.Contains(got, "want this annotation next to berth.dev/gang: the number") {
		t.Errorf("a gang without a minimum: the API server says %q, the scheduler %v", got, err)
	}
	for name, said := range map[string]map[string]any{
		"beside nobody":         {wire.SameNUMAAnnotation: "a"},
		"apart from nobody":     {wire.OtherNUMAAnnotation: "prefered: *"},
		"one NUMA node and two": {wire.PolicyAnnotation: "single-numa-node,scope=pod", wire.NUMANodesAnnotation: "2"},
	} {
		if got := denied(t, file, podRequest(said, nil)); len(got) == 0 {
			t.Errorf("%s: want a refusal", name)
		}
	}
	if got := denied(t, file, podRequest(map[string]any{wire.SameNUMAAnnotation: "a", "scheduling.k8s.io/group-name": "g"}, nil)); len(got) > 0 {
		t.Errorf("beside a member of a PodGroup: %q", got)
	}
	if got := denied(t, file, podRequest(map[string]any{wire.PolicyAnnotation: "single-numa-node", wire.NUMANodesAnnotation: "1"}, nil)); len(got) > 0 {
		t.Errorf("one NUMA node twice: %q", got)
	}
	old := map[string]any{wire.CPUsAnnotation: "FullPCPUs", "x": "1"}
	if got := denied(t, file, podRequest(map[string]any{wire.CPUsAnnotation: "FullPCPUs", "x": "2"}, old)); len(got) > 0 {
		t.Errorf("a pod that has it already cannot be written any more: %q", got)
	}
	if got := denied(t, file, podRequest(map[string]any{wire.CPUsAnnotation: "spred"}, old)); len(got) != 1 {
		t.Errorf("changed into another wrong word: %q", got)
	}
	if got := denied(t, file, podRequest(nil, nil)); len(got) > 0 {
		t.Errorf("a pod that says nothing: %q", got)
	}
}

// TestTemplatesWarnOfWrongWords: for a pod template, the API server warns about each value that it
// would refuse in a pod, with the same text.
func TestTemplatesWarnOfWrongWords(t *testing.T) {
	const file = "template-wishes.yaml"
	pod := func(annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	}
	for _, wrong := range []map[string]string{
		{wire.PolicyAnnotation: "single-numa"}, {wire.PolicyAnnotation: "restricted,scope=x"}, {wire.GangAnnotation: "g"}, {wire.GangAnnotation: "G", wire.GangMinimumAnnotation: "0"},
		{wire.SameNUMAAnnotation: "a"}, {wire.NUMANodesAnnotation: "2", wire.PolicyAnnotation: "single-numa-node"}, {wire.MemoryAnnotation: "x"}, {wire.DevicesAnnotation: "a3"},
		{wire.PolicyAnnotation: "single-numa-node"}, {},
	} {
		said := map[string]any{}
		for k, v := range wrong {
			said[k] = v
		}
		want := denied(t, "placement-wishes.yaml", podRequest(said, nil))
		for kind, path := range templateOf {
			if path == nil {
				continue
			}
			got := denied(t, file, written(t, kind, pod(wrong), nil))
			if len(got) != len(want) {
				t.Errorf("%s with %v: got %q, want %q", kind.Kind, wrong, got, want)
				continue
			}
			for i := range got {
				if !strings.HasSuffix(got[i], want[i]) || !strings.HasPrefix(got[i], "spec.") {
					t.Errorf("%s with %v: got %q, want spec....%s", kind.Kind, wrong, got[i], want[i])
				}
			}
			if again := denied(t, file, written(t, kind, pod(wrong), pod(wrong))); len(again) > 0 {
				t.Errorf("%s with %v that were there: %q", kind.Kind, wrong, again)
			}
		}
	}
}

// foreignWords has annotations of other projects with values, some of which the scheduler can read.
var foreignWords = map[string][]string{
	"label koordinator.sh/qosClass": {"", "LSE", "LSR", "LS", "BE", "SYSTEM", "lsr", "Lsr", "LSR ", "guaranteed"},
	"scheduling.koordinator.sh/numa-topology-spec": {"{}", `{"numaTopologyPolicy":"SingleNUMANode"}`, ` { "numaTopologyPolicy" : "RestrictedPodLevel", "singleNUMANodeExclusive":"Preferred" } `,
		`{"numaTopologyPolicy":""}`, `{"numaTopologyPolicy":null}`, "null", "{\n}", "", "SingleNUMANode", `{"numaTopologyPolicy":"single-numa-node"}`, `{"numaTopologyPolicy":"SingleNUMANode"`,
		`{"NumaTopologyPolicy":"Restricted"}`, `{'numaTopologyPolicy':'Restricted'}`, `{"numaTopologyPolicy":"Restricted",}`, `{"singleNUMANodeExclusive":"Required"}`, "[]", `{"policy":"None"}`,
		`{"numaTopologyPolicy":"BestEffort"}x`, strings.Repeat(" ", 5000) + "{}"},
	"scheduling.koordinator.sh/resource-spec": {"{}", `{"requiredCPUBindPolicy":"FullPCPUs"}`, `{"preferredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}`,
		`{"preferredCPUBindPolicy": "FullPCPU"}`, `{"preferredCPUBindPolicy":"None"}`, `{"preferredCPUExclusivePolicy":"NUMANode"}`, "FullPCPUs", `{"requiredCPUBindPolicy":true}`, `{"bindPolicy":"FullPCPUs"}`, `{"preferredCPUExclusivePolicy":"Default"}`},
	"scheduling.koordinator.sh/device-joint-allocate": {`{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}`, `{"deviceTypes":["gpu"]}`, `{"deviceTypes":[]}`, `{}`, "null", `{"deviceTypes":["GPU"]}`,
		`{"deviceTypes":["gpu"],"requiredScope":"SameNUMA"}`, "gpu,rdma", `{ "deviceTypes" : [ "gpu" , "xpu" ] }`},
	"scheduling.koordinator.sh/device-allocate-hint": {`{"rdma":{"allocateStrategy":"ApplyForAll"}}`, "{}", `{"rdma":{"vfSelector":{}}}`, "null", "rdma", `{"RDMA":{}}`, `{"nic":{}}`, "", "[]"},
	"gang.scheduling.koordinator.sh/name":            {"g", "G", "a_b", "", "a.b"},
	"scheduling.k8s.io/group-name":                   {"g", "G", ""},
	"scheduling.volcano.sh/group-name":               {"g", "ns/g"},
	"label scheduling.x-k8s.io/pod-group":            {"g", "My_Group", ""},
	"label pod-group.scheduling.sigs.k8s.io":         {"g", "My_Group"},
	"gang.scheduling.koordinator.sh/min-available":   {"1", "4096", "+3", "007", "0", "-1", "4097", "two", "", "1.0"},
	"gang.scheduling.koordinator.sh/total-number":    {"2", "", "0", "many", "4097"},
	"gang.scheduling.koordinator.sh/waiting-time":    {"", "10m", "1h30m", "1.5s", "90", "0s", "-5m", "10 m", "10min", "00m", "1us"},
	"gang.scheduling.koordinator.sh/mode":            {"", "Strict", "NonStrict", "strict"},
	"gang.scheduling.koordinator.sh/match-policy":    {"", "once-satisfied", "waiting-and-running", "only-waiting", "once"},
	"gang.scheduling.koordinator.sh/groups":          {"", `["ns/g"]`, `[ "ns/g" , "ns/h" ]`, "ns/g", `["ns/g"`, `["ns/g",]`, `[1]`},
	"volcano.sh/numa-topology-policy":                {"", "none", "restricted", "single-numa", "Restricted"},
}

// TestForeignWordsWarn: in pods and templates, the API server warns about exactly the values of
// other projects' annotations that the scheduler could not read.
func TestForeignWordsWarn(t *testing.T) {
	const file = "template-wishes.yaml"
	kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}}
	warned := 0
	for said, values := range foreignWords {
		key, label := strings.CutPrefix(said, "label ")
		for _, value := range values {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
			switch {
			case label:
				pod.Labels = map[string]string{key: value}
			case strings.HasPrefix(key, "gang."):
				pod.Annotations = map[string]string{"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2", key: value}
			default:
				pod.Annotations = map[string]string{key: value}
			}
			_, err := wire.ReadRules(pod)
			_, gangErr := wire.ReadMembership(pod)
			err = cmp.Or(err, gangErr)
			place := "metadata.annotations["
			if label {
				place = "metadata.labels["
			}
			for _, kind := range kinds {
				got := denied(t, file, written(t, kind, pod, nil))
				if len(got) > 1 || len(got) == 1 != (err != nil) || len(got) == 1 && !strings.Contains(got[0], place+key+"]: \"") {
					t.Errorf("%s with %s %.80q: the API server says %q, the scheduler %v", kind.Kind, key, value, got, err)
				}
				warned += len(got)
				if again := denied(t, file, written(t, kind, pod, pod)); len(again) > 0 {
					t.Errorf("%s with %s %.80q that were there: %q", kind.Kind, key, value, again)
				}
			}
			if pod.Spec.SchedulerName = "koord-scheduler"; len(denied(t, file, written(t, kinds[1], pod, nil))) > 0 {
				t.Errorf("%s %.80q of a pod for Koordinator's own scheduler: want no warning", key, value)
			}
		}
	}
	if warned < 3*40 {
		t.Errorf("%d warnings: want more", warned)
	}
	for _, value := range []string{"no", "yes", "False "} { // the scheduler reads it as false
		if got := denied(t, file, written(t, kinds[1], podWithAnnotation(wire.PreemptableKey, value), nil)); len(got) != 1 {
			t.Errorf("preemptable %q: %q, want a warning", value, got)
		}
	}
	if got := denied(t, file, written(t, kinds[1], podWithAnnotation(wire.PreemptableKey, "false"), nil)); len(got) > 0 {
		t.Errorf("preemptable false: %q", got)
	}
}

// TestGroupsWarnOfWrongPreemptable: a PodGroup, and an object whose controller copies its own keys
// to a PodGroup, cause the same warning as a pod. Objects whose own keys reach no PodGroup do not.
func TestGroupsWarnOfWrongPreemptable(t *testing.T) {
	const file = "template-wishes.yaml"
	want := `[volcano.sh/preemptable]: "maybe": want true or false: anything else counts as false, which keeps the pod from eviction`
	for _, c := range []struct{ group, resource, kind, at string }{
		{"scheduling.volcano.sh", "podgroups", "PodGroup", "metadata."}, {"scheduling.x-k8s.io", "podgroups", "PodGroup", "metadata."},
		{"batch.volcano.sh", "jobs", "Job", "metadata."}, {"batch.volcano.sh", "cronjobs", "CronJob", "spec.jobTemplate.metadata."}, {"kubeflow.org", "pytorchjobs", "PyTorchJob", "metadata."},
		{"apps", "deployments", "Deployment", ""}, {"scheduling.koordinator.sh", "reservations", "Reservation", ""},
	} {
		r := schema.GroupVersionResource{Group: c.group, Version: "v1", Resource: c.resource}
		object := func(place, value string) map[string]any {
			meta := map[string]any{"name": "x", place: map[string]any{wire.PreemptableKey: value}}
			if c.resource == "cronjobs" {
				return map[string]any{"metadata": map[string]any{"name": "x"}, "spec": map[string]any{"jobTemplate": map[string]any{"metadata": meta, "spec": map[string]any{}}}}
			}
			return map[string]any{"metadata": meta, "spec": map[string]any{}}
		}
		for _, place := range []string{"annotations", "labels"} {
			got := denied(t, file, writes(r, c.kind, object(place, "maybe"), nil, &user.DefaultInfo{}))
			if len(got) > 1 || len(got) == 1 != (c.at != "") || c.at != "" && got[0] != c.at+place+want {
				t.Errorf("%s with %s: %q", c.kind, place, got)
			}
			for name, before := range map[string]string{"true": "maybe", "maybe": "maybe"} {
				if got := denied(t, file, writes(r, c.kind, object(place, name), object(place, before), &user.DefaultInfo{})); len(got) > 0 {
					t.Errorf("%s with %s %s after %s: %q", c.kind, place, name, before, got)
				}
			}
		}
	}
}

func podWithAnnotation(key, value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
}
