package wire

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
)

func TestIgnoredKeys(t *testing.T) {
	const volcano, koordinator = "Berth ignores annotations of Volcano: ", "Berth ignores annotations of Koordinator: "
	const no = " (Berth has no such annotation or label)"
	unknown := func(key string) string {
		return "Berth ignores the unknown annotation " + key + ": want berth.dev/policy, gang, gang-minimum, gang-same-numa-node, gang-other-numa-node, cpus, exclusive, l3, memory, numa-nodes, devices, functions or claims"
	}
	for _, tc := range []struct {
		name, scheduler string
		keys            []string
		want            []string
	}{
		{"none", "berth", nil, nil},
		{"what is read", "berth", []string{PolicyAnnotation, PlacementAnnotation}, nil},
		{"others' affairs", "berth", []string{"example.com/policy", "xberth.dev/policy", "xvolcano.sh/x", "volcano.sh", "volcano.sh.example.com/x", "berth.dev"}, nil},
		{"misspelt", "berth", []string{"berth.dev/polcy"}, []string{unknown("berth.dev/polcy")}},
		{"another case", "berth", []string{"berth.dev/Policy"}, []string{unknown("berth.dev/Policy")}},
		{"three, sorted", "berth", []string{"berth.dev/c", "berth.dev/a", "berth.dev/b"}, []string{unknown("berth.dev/a, berth.dev/b, berth.dev/c")}},
		{"what Volcano's controller writes", "berth", []string{"volcano.sh/job-name", "volcano.sh/task-index", "volcano.sh/task-spec"}, nil},
		{"Volcano's word for eviction is read", "berth", []string{PreemptableKey}, nil},
		{"Volcano's words without effect", "berth", []string{"volcano.sh/cooldown-time", "volcano.sh/task-topology-affinity"}, []string{
			volcano + `volcano.sh/cooldown-time (Berth does not protect pods from eviction for a time: volcano.sh/preemptable: "false" keeps it for good), ` +
				"volcano.sh/task-topology-affinity (use podAffinity, or berth.dev/gang-same-numa-node)"}},
		{"Volcano's misspelt", "berth", []string{"volcano.sh/preemptible", "volcano.sh/topology-policy"}, []string{
			volcano + "volcano.sh/preemptible (did you mean volcano.sh/preemptable?), volcano.sh/topology-policy (did you mean volcano.sh/numa-topology-policy?)"}},
		{"Volcano's below its domain", "berth", []string{"node.volcano.sh/warmup"}, []string{volcano + "node.volcano.sh/warmup" + no}},
		{"KAI's, without a domain", "", []string{"gpu-fraction"}, []string{"Berth ignores annotations of KAI: gpu-fraction (Berth hands out whole devices: ask for them in resources.limits)"}},
		{"KAI's at its own scheduler", "kai-scheduler", []string{"gpu-fraction"}, nil},
		{"YuniKorn's", "berth", []string{"yunikorn.apache.org/task-groups", "yunikorn.apache.org/x"}, []string{"Berth ignores annotations of YuniKorn: " +
			"yunikorn.apache.org/task-groups (a gang is declared by a PodGroup, or by berth.dev/gang), yunikorn.apache.org/x" + no}},
		{"Slinky's", "berth", []string{"slurmjob.slinky.slurm.net/partition", "slinky.slurm.net/slurm-node"}, []string{"Berth ignores annotations of Slinky: slurmjob.slinky.slurm.net/partition" + no}},
		{"Katalyst's", "", []string{"katalyst.kubewharf.io/qos_level", "spd.katalyst.kubewharf.io/x"}, []string{"Berth ignores annotations of Katalyst: " +
			"katalyst.kubewharf.io/qos_level (whole CPUs with limits equal to requests are exclusive, and berth.dev/cpus selects cores), spd.katalyst.kubewharf.io/x" + no}},
		{"Koordinator's label as an annotation", "", []string{"koordinator.sh/qosClass"}, []string{koordinator + "koordinator.sh/qosClass (it is a label, not an annotation)"}},
		{"labels of gangs as annotations", "", []string{sigs.PodGroupLabel, sigs.OldPodGroupLabel}, []string{
			koordinator + "pod-group.scheduling.sigs.k8s.io (it is a label, not an annotation)",
			"Berth ignores annotations of Coscheduling: scheduling.x-k8s.io/pod-group (it is a label, not an annotation)"}},
		{"a misspelt one", "", []string{"scheduling.x-k8s.io/podgroup"}, []string{"Berth ignores annotations of Coscheduling: scheduling.x-k8s.io/podgroup" + no}},
		{"a minimum without a gang", "", []string{GangMinimumAnnotation}, []string{
			"Berth ignores berth.dev/gang-minimum without the gang's name: want the annotation berth.dev/gang on the pod, too"}},
		{"Koordinator's minimum without a gang", "berth", []string{koordinatorGangMode, koordinatorGangMinimum}, []string{
			"Berth ignores gang.scheduling.koordinator.sh/min-available, gang.scheduling.koordinator.sh/mode without the gang's name: want the annotation gang.scheduling.koordinator.sh/name on the pod, too"}},
		{"at Koordinator's scheduler", "koord-scheduler", []string{koordinatorGangMinimum}, nil},
		{"Volcano's policy is read", "berth", []string{VolcanoPolicyAnnotation}, nil},
		{"a gang is read", "", []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", GangAnnotation, GangMinimumAnnotation}, nil},
		{"Volcano at its own scheduler", "volcano", []string{"volcano.sh/numa-topology-policy", "scheduling.volcano.sh/x"}, nil},
		{"Koordinator at its own scheduler", "koord-scheduler", []string{"scheduling.koordinator.sh/resource-spec"}, nil},
		{"Koordinator at Volcano's", "volcano", []string{"scheduling.koordinator.sh/gpu-partition-spec"}, []string{koordinator + "scheduling.koordinator.sh/gpu-partition-spec (Berth hands out whole devices: ask for them in resources.limits)"}},
		{"Koordinator's NUMA nodes are read", "berth", []string{"scheduling.koordinator.sh/numa-topology-spec"}, nil},
		{"Koordinator's CPUs without a class", "berth", []string{"scheduling.koordinator.sh/resource-spec"}, []string{
			"Berth ignores scheduling.koordinator.sh/resource-spec of a pod without CPUs of its own: want the label koordinator.sh/qosClass: LSE or LSR on the pod, too"}},
		{"all", "berth", []string{"gang.scheduling.koordinator.sh/nam", "scheduling.volcano.sh/queue", "berth.dev/scope", PolicyAnnotation},
			[]string{unknown("berth.dev/scope"), volcano + "scheduling.volcano.sh/queue" + no, koordinator + "gang.scheduling.koordinator.sh/nam" + no}},
		{"Koordinator's gangs are read", "berth", koordinatorGangKeys, nil},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.PodSpec{SchedulerName: tc.scheduler}}
		for _, key := range tc.keys {
			pod.Annotations[key] = "x"
		}
		if got := textsOf(t, IgnoredKeys(pod), annotationIgnored); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestIgnoredKeysOfServed: a pod that Berth places gets the warning, whichever scheduler name it
// has.
func TestIgnoredKeysOfServed(t *testing.T) {
	for _, d := range Dialects() {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{d.Domains[0] + "/x": "y"}, Labels: map[string]string{d.Domains[0] + "/x": "y"}},
			Spec: corev1.PodSpec{SchedulerName: d.Scheduler}}
		if got := IgnoredKeys(pod, "berth", d.Scheduler); len(got) != 2 || len(IgnoredKeys(pod)) != 0 {
			t.Errorf("%s at %s: %q, and %q at creation", d.Name, d.Scheduler, got, IgnoredKeys(pod))
		}
	}
}

// textsOf returns the texts of warnings, which must all have this reason.
func textsOf(t *testing.T, all []Ignored, reason string) (texts []string) {
	t.Helper()
	for _, w := range all {
		texts = append(texts, w.Text)
		if w.Reason != reason {
			t.Errorf("%s: reason %s, want %s", w.Text, w.Reason, reason)
		}
	}
	return texts
}

// TestIgnoredLabels: Berth reads only a few labels. Others of its own domain, or of a dialect,
// cause a warning.
func TestIgnoredLabels(t *testing.T) {
	const own = ": want one of the annotations berth.dev/policy, gang, gang-minimum, gang-same-numa-node, gang-other-numa-node, cpus, exclusive, l3, memory, numa-nodes, devices, functions or claims"
	for _, tc := range []struct {
		name, scheduler string
		keys            []string
		want            []string
	}{
		{"others' affairs", "berth", []string{"app", "example.com/policy", "xberth.dev/policy", "volcano.sh/job-name", "volcano.sh/task-spec", "pod-template-hash"}, nil},
		{"Volcano's word for eviction is read", "berth", []string{PreemptableKey}, nil},
		{"of a pod that holds a place", "berth", []string{HolderLabel}, nil},
		{"a gang is read", "berth", []string{"scheduling.x-k8s.io/pod-group"}, nil},
		{"an annotation's key", "berth", []string{PolicyAnnotation}, []string{"Berth ignores the unknown pod label berth.dev/policy" + own}},
		{"misspelt", "", []string{"berth.dev/polcy", "berth.dev/gangs"}, []string{"Berth ignores the unknown pod label berth.dev/gangs, berth.dev/polcy" + own}},
		{"Volcano's annotation as a label", "berth", []string{"scheduling.volcano.sh/group-name"},
			[]string{"Berth ignores labels of Volcano: scheduling.volcano.sh/group-name (it is an annotation, not a label)"}},
		{"Koordinator's", "berth", []string{"koordinator.sh/qosClass", "quota.scheduling.koordinator.sh/name"},
			[]string{"Berth ignores labels of Koordinator: quota.scheduling.koordinator.sh/name (Berth has no queues and quotas: use Kueue above it)"}},
		{"Koordinator's at its own scheduler", "koord-scheduler", []string{"koordinator.sh/qosClass"}, nil},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, Spec: corev1.PodSpec{SchedulerName: tc.scheduler}}
		for _, key := range tc.keys {
			pod.Labels[key] = "x"
		}
		if got := textsOf(t, IgnoredKeys(pod), labelIgnored); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestWarningsFitIntoEvents: an event's note has at most 1024 bytes, and users may write keys of
// 317 bytes.
func TestWarningsFitIntoEvents(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, Labels: map[string]string{}}}
	for i := range 700 {
		pod.Annotations[fmt.Sprintf("%s%063d", OwnPrefix, i)] = ""
		pod.Labels[fmt.Sprintf("%s%063d", OwnPrefix, i)] = ""
		for _, d := range dialects {
			for _, domain := range d.Domains {
				key := fmt.Sprintf("%s.%s/%063d", strings.Repeat("a", 252-len(domain)), domain, i)
				pod.Annotations[key], pod.Labels[key] = "", ""
			}
		}
	}
	got := IgnoredKeys(pod)
	if len(got) != 2*(1+len(dialects)) {
		t.Errorf("got %q", got)
	}
	for _, w := range got {
		if len(w.Text) > 1024 {
			t.Errorf("%d bytes: %s", len(w.Text), w.Text)
		}
	}
}

// TestDialects: a wrong entry would match no key, or one of Berth's own. A key that is read must
// not be reported as ignored.
func TestDialects(t *testing.T) {
	seen := map[string]string{}
	for _, d := range Dialects() {
		if d.Name == "" || d.Scheduler == "" || len(d.Domains) == 0 {
			t.Errorf("incomplete: %+v", d)
		}
		for _, w := range d.Words {
			for _, key := range w.Keys {
				if other := seen[key]; other != "" || w.Why == "" || strings.Contains(w.Why, "\\") || strings.Contains(key, "/") && !d.inDomain(key) {
					t.Errorf("key %q of %s (%s): want one of its domains, once (%s), and a reason without backslashes", key, d.Name, w.Why, other)
				}
				if seen[key] = d.Name; d.Why(key, false) != w.Why || d.Why(key, true) != w.Why {
					t.Errorf("key %q of %s: %q, %q", key, d.Name, d.Why(key, false), d.Why(key, true))
				}
			}
		}
	}
	annotations, labels := KeysRead()
	for _, d := range Dialects() {
		for _, key := range annotations {
			if why := d.Why(key, false); why != "" {
				t.Errorf("annotation %s is read, and %s says %q", key, d.Name, why)
			}
		}
		for _, key := range labels {
			if why := d.Why(key, true); why != "" {
				t.Errorf("label %s is read, and %s says %q", key, d.Name, why)
			}
		}
	}
}

// TestIgnoredOfGroup: annotations of a PodGroup that Volcano's controllers convert to its fields
// cause no warning.
func TestIgnoredOfGroup(t *testing.T) {
	group := &metav1.ObjectMeta{
		Annotations: map[string]string{"volcano.sh/sla-waiting-time": "1h", "sla-waiting-time": "1h", PreemptableKey: "false", "scheduling.volcano.sh/group-min-member": "2", "example.com/x": ""},
		Labels:      map[string]string{"kai.scheduler/queue": "a"},
	}
	const want = "sla-waiting-time (waiting does not raise a pod's priority: use a PriorityClass), volcano.sh/sla-waiting-time (waiting does not raise a pod's priority: use a PriorityClass), kai.scheduler/queue (Berth has no queues and quotas: use Kueue above it)"
	if got := IgnoredOfGroup(group); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestIgnoredKeysNoAlloc: the function is called for every scheduled pod.
func TestIgnoredKeysNoAlloc(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{PolicyAnnotation: "restricted", "example.com/x": "y"}, Labels: map[string]string{"app": "x"}}}
	if n := testing.AllocsPerRun(100, func() { IgnoredKeys(pod) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestEveryAnnotationIsOnTheSheet: docs/concepts.md lists exactly the annotations that Berth reads.
func TestEveryAnnotationIsOnTheSheet(t *testing.T) {
	said := map[string]bool{}
	for _, key := range regexp.MustCompile("`("+OwnPrefix+"[a-z0-9-]+)`").FindAllStringSubmatch(sheet(t), -1) {
		said[key[1]] = true
	}
	if got, want := slices.Sorted(maps.Keys(said)), PodKeys(); !slices.Equal(got, want) {
		t.Errorf("the sheet has %q, Berth reads %q", got, want)
	}
}

// TestCPUsShared: a pod that requires CPUs of its own gets a warning if no kubelet would pin its
// CPUs. The warning names the key that the pod has. Other pods get none.
func TestCPUsShared(t *testing.T) {
	numa, cpus := koordinatorNUMA+`={"numaTopologyPolicy":"SingleNUMANode"}`, koordinatorCPUs+`={"requiredCPUBindPolicy":"FullPCPUs"}`
	const limits, memory = "whole number of CPUs", "not Guaranteed"
	for _, tc := range []struct {
		class, says string
		cpu, memory string // limits of the pod
		key, why    string // "" for no warning
	}{
		{says: CPUsAnnotation + "=full-cores", cpu: "2", key: CPUsAnnotation, why: memory},
		{says: CPUsAnnotation + "=spread", cpu: "2", key: CPUsAnnotation, why: memory},
		{says: CPUsAnnotation + "=spread", cpu: "1500m", memory: "1Gi", key: CPUsAnnotation, why: limits},
		{says: CPUsAnnotation + "=spread", cpu: "2", memory: "1Gi"},
		{says: CPUsAnnotation + "=spread,preferred", cpu: "2"},
		{says: CPUsAnnotation + "=shares", cpu: "2"},
		{says: ExclusiveAnnotation + "=core", cpu: "2", key: ExclusiveAnnotation, why: memory},
		{says: L3Annotation + "=required", cpu: "2", key: L3Annotation, why: memory},
		{says: L3Annotation + "=preferred", cpu: "2"},
		{says: PolicyAnnotation + "=restricted", cpu: "2", key: PolicyAnnotation, why: "container main has no limit of memory"},
		{says: PolicyAnnotation + "=none", cpu: "2"},
		{says: PolicyAnnotation + "=restricted", cpu: "1500m", memory: "1Gi"},
		{says: MemoryAnnotation + "=pinned", cpu: "2", key: MemoryAnnotation, why: "container main has no limit of memory"},
		{says: VolcanoPolicyAnnotation + "=restricted", cpu: "1500m", memory: "1Gi", key: VolcanoPolicyAnnotation, why: limits},
		{says: VolcanoPolicyAnnotation + "=none", cpu: "1500m"},
		{says: numa, cpu: "2", key: koordinatorNUMA, why: memory},
		{class: "LSR", says: cpus, cpu: "2", key: koordinatorQoS + ", " + koordinatorCPUs, why: memory},
		{class: "LSR", says: numa, cpu: "2", key: koordinatorQoS + ", " + koordinatorNUMA, why: memory},
		{class: "LSR", says: cpus, cpu: "2", memory: "1Gi"},
		{class: "LS", says: numa, cpu: "2", key: koordinatorNUMA, why: memory},
		{class: "LS", says: numa, cpu: "2", memory: "1Gi"},
	} {
		key, value, _ := strings.Cut(tc.says, "=")
		pod := podAsking(map[string]string{key: value})
		if tc.class != "" {
			pod.Labels = map[string]string{koordinatorQoS: tc.class}
		}
		limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(tc.cpu)}
		if tc.memory != "" {
			limits[corev1.ResourceMemory] = resource.MustParse(tc.memory)
		}
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}}}
		w, told := CPUsShared(pod)
		if told != (tc.key != "") || told && (w.Reason != cpusShared || !strings.Contains(w.Text, " in spite of its "+tc.key+", because ") || !strings.Contains(w.Text, tc.why)) {
			t.Errorf("%+v: told %t: %q", tc, told, w.Text)
		}
	}
}

// TestNotGuaranteed: the warning names what is missing in each container.
func TestNotGuaranteed(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	container := func(name string, requests, limits corev1.ResourceList) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	good := container("good", nil, list("2", "1Gi"))
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("envoy", list("100m", "64Mi"), nil)
	sidecar.RestartPolicy = &always
	for want, pod := range map[string]corev1.PodSpec{
		"":                                   {Containers: []corev1.Container{good, container("same", list("2000m", "1024Mi"), list("2", "1Gi"))}},
		"container m has no limit of memory": {Containers: []corev1.Container{good, container("m", nil, list("4", ""))}},
		"container m has no limit of cpu":    {Containers: []corev1.Container{container("m", nil, list("0", "1Gi"))}},
		"container m requests less than its limits":            {Containers: []corev1.Container{container("m", list("2", ""), list("4", "1Gi"))}},
		"init container envoy has no limits of cpu and memory": {InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{good}},
		"spec.resources requests less than its limits":         {Containers: []corev1.Container{good}, Resources: &corev1.ResourceRequirements{Limits: list("4", "4Gi")}},
		"spec.resources has no limit of memory":                {Containers: []corev1.Container{good}, Resources: &corev1.ResourceRequirements{Limits: list("4", "")}},
		"container a has no limits of cpu and memory, container b has no limits of cpu and memory, container c has no limits of cpu and memory and 1 more": {Containers: []corev1.Container{
			container("a", nil, nil), container("b", nil, nil), container("c", nil, nil), container("d", nil, nil)}},
	} {
		if got := NotGuaranteed(&corev1.Pod{Spec: pod}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestNoDevices: a pod with an annotation about devices, but without devices, gets a warning.
func TestNoDevices(t *testing.T) {
	pod := podAsking(map[string]string{DevicesAnnotation: "same-switch", FunctionsAnnotation: "one-per-card"})
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2")}}}}
	if w, told := NoDevices(pod); !told || w.Reason != annotationIgnored || w.Text != "Berth ignores berth.dev/devices, berth.dev/functions: no container of the pod asks for a device" {
		t.Errorf("told %t: %+v", told, w)
	}
	if _, told := NoDevices(podAsking(map[string]string{ClaimsAnnotation: "near"})); !told {
		t.Error("a pod without claims is not told that it has none")
	}
	classed := podAsking(map[string]string{ClaimsAnnotation: "near"})
	classed.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"deviceclass.resource.kubernetes.io/gpu": resource.MustParse("1")}}}}
	if w, told := NoDevices(classed); told {
		t.Errorf("a pod with a device of a device class: %+v", w)
	}
	pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("1")
	if w, told := NoDevices(pod); told {
		t.Errorf("a pod with a device: %+v", w)
	}
	if w, told := NoDevices(podAsking(map[string]string{PolicyAnnotation: "restricted"})); told {
		t.Errorf("a pod that says nothing of devices: %+v", w)
	}
}

// TestKeptFromEviction has the results of Volcano's own code.
func TestKeptFromEviction(t *testing.T) {
	for _, c := range []struct {
		annotation, label string
		kept              bool
	}{
		{"", "", false}, {"false", "", true}, {"0", "", true}, {"true", "", false}, {"maybe", "", true}, {"", "false", true}, {"", "true", false}, {"true", "false", false}, {"false", "true", true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, Labels: map[string]string{}}}
		if c.annotation != "" {
			pod.Annotations[PreemptableKey] = c.annotation
		}
		if c.label != "" {
			pod.Labels[PreemptableKey] = c.label
		}
		if got := KeptFromEviction(pod); got != c.kept {
			t.Errorf("%+v: kept %t", c, got)
		}
	}
}

// TestUnreadableValuesOfPodsThatPass: a pod for which no kubelet pins resources is placed whatever
// its annotations say. It gets a warning if one cannot be read.
func TestUnreadableValuesOfPodsThatPass(t *testing.T) {
	pod := koordinatorPod("lsr", "", "")
	w, told := CPUsShared(pod)
	if ask, err := ReadPod(pod); err != nil || ask.Request.Pinnable() {
		t.Fatalf("%+v, %v: want a pod that passes", ask.Request, err)
	}
	if want := `metadata.labels[koordinator.sh/qosClass]: "lsr": want LSE, LSR, LS, BE or SYSTEM`; !told || w.Reason != annotationIgnored || !strings.Contains(w.Text, want) {
		t.Errorf("told %+v, want %s", w, want)
	}
}
