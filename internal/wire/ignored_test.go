package wire

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIgnoredKeys(t *testing.T) {
	const volcano, koordinator = "Berth does not serve every annotation of Volcano and ignores ", "Berth does not serve every annotation of Koordinator and ignores "
	unknown := func(key string) string {
		return "Berth knows no annotation " + key + " and ignores it: want berth.dev/policy, gang, gang-minimum, gang-same-numa-node, gang-other-numa-node, cpus, exclusive, l3, memory, numa-nodes, devices or functions"
	}
	for _, tc := range []struct {
		name, scheduler string
		keys            []string
		want            []string
	}{
		{"none", "berth", nil, nil},
		{"what is read", "berth", []string{PolicyAnnotation, PlacementAnnotation}, nil},
		{"others' affairs", "berth", []string{"example.com/policy", "xberth.dev/policy", "volcano.sh/job-name", "berth.dev"}, nil},
		{"misspelt", "berth", []string{"berth.dev/polcy"}, []string{unknown("berth.dev/polcy")}},
		{"another case", "berth", []string{"berth.dev/Policy"}, []string{unknown("berth.dev/Policy")}},
		{"three, sorted", "berth", []string{"berth.dev/c", "berth.dev/a", "berth.dev/b"}, []string{unknown("berth.dev/a, berth.dev/b and 1 more")}},
		{"Volcano's policy is read", "berth", []string{VolcanoPolicyAnnotation}, nil},
		{"a gang is read", "", []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", GangAnnotation, GangMinimumAnnotation}, nil},
		{"Volcano at its own scheduler", "volcano", []string{"volcano.sh/numa-topology-policy", "scheduling.volcano.sh/x"}, nil},
		{"Koordinator at its own scheduler", "koord-scheduler", []string{"scheduling.koordinator.sh/resource-spec"}, nil},
		{"Koordinator at Volcano's", "volcano", []string{"scheduling.koordinator.sh/gpu-partition-spec"}, []string{koordinator + "scheduling.koordinator.sh/gpu-partition-spec"}},
		{"Koordinator's CPUs and NUMA nodes are read", "berth", []string{"scheduling.koordinator.sh/resource-spec", "scheduling.koordinator.sh/numa-topology-spec"}, nil},
		{"all", "berth", []string{"gang.scheduling.koordinator.sh/nam", "scheduling.volcano.sh/queue", "berth.dev/scope", PolicyAnnotation},
			[]string{unknown("berth.dev/scope"), volcano + "scheduling.volcano.sh/queue", koordinator + "gang.scheduling.koordinator.sh/nam"}},
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

// TestIgnoredKeysOfServed: a pod that Berth places is told under whatever name it came.
func TestIgnoredKeysOfServed(t *testing.T) {
	for _, d := range UnspokenDialects() {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{d.Prefixes[0] + "x": "y"}, Labels: map[string]string{d.Prefixes[0] + "x": "y"}},
			Spec: corev1.PodSpec{SchedulerName: d.Scheduler}}
		if got := IgnoredKeys(pod, "berth", d.Scheduler); len(got) != 2 || len(IgnoredKeys(pod)) != 0 {
			t.Errorf("%s at %s: %q, and %q at creation", d.Name, d.Scheduler, got, IgnoredKeys(pod))
		}
	}
}

// textsOf returns the texts of warnings which all have that reason.
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

// TestIgnoredLabels: no label asks anything of Berth, except for the one that names a gang.
func TestIgnoredLabels(t *testing.T) {
	const own = " of a pod and ignores it: want an annotation, berth.dev/policy, gang, gang-minimum, gang-same-numa-node, gang-other-numa-node, cpus, exclusive, l3, memory, numa-nodes, devices or functions"
	for _, tc := range []struct {
		name, scheduler string
		keys            []string
		want            []string
	}{
		{"others' affairs", "berth", []string{"app", "example.com/policy", "xberth.dev/policy", "volcano.sh/job-name", "pod-template-hash"}, nil},
		{"of a pod that holds a place", "berth", []string{HolderLabel}, nil},
		{"a gang is read", "berth", []string{"scheduling.x-k8s.io/pod-group"}, nil},
		{"an annotation's key", "berth", []string{PolicyAnnotation}, []string{"Berth knows no label berth.dev/policy" + own}},
		{"misspelt", "", []string{"berth.dev/polcy", "berth.dev/gangs"}, []string{"Berth knows no label berth.dev/gangs, berth.dev/polcy" + own}},
		{"Volcano's annotation as a label", "berth", []string{"scheduling.volcano.sh/group-name"},
			[]string{"Berth does not serve every label of Volcano and ignores scheduling.volcano.sh/group-name"}},
		{"Koordinator's", "berth", []string{"koordinator.sh/qosClass", "quota.scheduling.koordinator.sh/name"},
			[]string{"Berth does not serve every label of Koordinator and ignores quota.scheduling.koordinator.sh/name"}},
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

// TestWarningsFitIntoEvents: a note of an event has at most 1024 bytes, and anybody may write keys
// of 317 bytes.
func TestWarningsFitIntoEvents(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}, Labels: map[string]string{}}}
	for i := range 700 {
		pod.Annotations[fmt.Sprintf("%s%063d", OwnPrefix, i)] = ""
		pod.Labels[fmt.Sprintf("%s%063d", OwnPrefix, i)] = ""
		for _, d := range unspoken {
			for _, p := range d.Prefixes {
				pod.Annotations[fmt.Sprintf("%s%063d", p, i)] = ""
				pod.Labels[fmt.Sprintf("%s%063d", p, i)] = ""
			}
		}
	}
	got := IgnoredKeys(pod)
	if len(got) != 2*(1+len(unspoken)) {
		t.Errorf("got %q", got)
	}
	for _, w := range got {
		if len(w.Text) > 1024 {
			t.Errorf("%d bytes: %s", len(w.Text), w.Text)
		}
	}
}

// TestUnspokenDialects: an entry that is written wrongly would match nothing, or what is Berth's.
func TestUnspokenDialects(t *testing.T) {
	seen := map[string]string{}
	for _, d := range UnspokenDialects() {
		if d.Name == "" || d.Scheduler == "" || len(d.Keys)+len(d.Prefixes) == 0 {
			t.Errorf("incomplete: %+v", d)
		}
		for _, p := range slices.Concat(d.Prefixes, d.LabelPrefixes) {
			if strings.Count(p, "/") != 1 || !strings.HasSuffix(p, "/") {
				t.Errorf("prefix %q of %s: want a domain and a slash", p, d.Name)
			}
		}
		for _, key := range slices.Concat(d.Keys, d.Prefixes, d.LabelPrefixes) {
			if other := seen[key]; other != "" || strings.HasPrefix(key, OwnPrefix) || !strings.Contains(key, "/") {
				t.Errorf("key %q of %s: want a domain other than Berth's, once (%s)", key, d.Name, other)
			}
			seen[key] = d.Name
		}
	}
}

// TestIgnoredKeysNoAlloc: every pod that is scheduled is asked.
func TestIgnoredKeysNoAlloc(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{PolicyAnnotation: "restricted", "example.com/x": "y"}, Labels: map[string]string{"app": "x"}}}
	if n := testing.AllocsPerRun(100, func() { IgnoredKeys(pod) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestEveryAnnotationIsOnTheSheet holds docs/annotations.md against the annotations that Berth
// reads, and against no others.
func TestEveryAnnotationIsOnTheSheet(t *testing.T) {
	data, err := os.ReadFile("../../docs/annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, key := range regexp.MustCompile("`("+OwnPrefix+"[a-z0-9-]+)`").FindAllStringSubmatch(string(data), -1) {
		said[key[1]] = true
	}
	if got, want := slices.Sorted(maps.Keys(said)), PodKeys(); !slices.Equal(got, want) {
		t.Errorf("the sheet has %q, Berth reads %q", got, want)
	}
}

// TestCPUsShared: who insists on CPUs of its own, and is none whose CPUs a kubelet pins, is told
// under the key that stands in the pod; nobody else.
func TestCPUsShared(t *testing.T) {
	numa, cpus := koordinatorNUMA+`={"numaTopologyPolicy":"SingleNUMANode"}`, koordinatorCPUs+`={"requiredCPUBindPolicy":"FullPCPUs"}`
	const limits, memory = "no whole CPUs", "not Guaranteed"
	for _, tc := range []struct {
		class, says string
		cpu, memory string // limits
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
		{says: PolicyAnnotation + "=restricted", cpu: "2"},
		{says: numa, cpu: "2", key: koordinatorNUMA, why: memory},
		{class: "LSR", says: cpus, cpu: "2", key: koordinatorQoS + ", " + koordinatorCPUs, why: memory},
		{class: "LSR", says: numa, cpu: "2", key: koordinatorQoS, why: memory},
		{class: "LSR", says: cpus, cpu: "2", memory: "1Gi"},
		{class: "LS", says: numa, cpu: "2"},
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
		if told != (tc.key != "") || told && (w.Reason != cpusShared || !strings.Contains(w.Text, " whatever its "+tc.key+" says, because it ") || !strings.Contains(w.Text, tc.why)) {
			t.Errorf("%+v: told %t: %q", tc, told, w.Text)
		}
	}
}
