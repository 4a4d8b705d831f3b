package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIgnoredAnnotations(t *testing.T) {
	const volcano, koordinator = "Berth does not read the annotations of Volcano yet and ignores ", "Berth does not read the annotations of Koordinator yet and ignores "
	unknown := func(key string) string {
		return "Berth knows no annotation " + key + " and ignores it: want berth.dev/policy, gang, gang-minimum, cpus, exclusive, l3 or memory"
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
		{"Koordinator at Volcano's", "volcano", []string{"scheduling.koordinator.sh/resource-spec"}, []string{koordinator + "scheduling.koordinator.sh/resource-spec"}},
		{"all", "berth", []string{"gang.scheduling.koordinator.sh/name", "scheduling.volcano.sh/queue", "berth.dev/scope", PolicyAnnotation},
			[]string{unknown("berth.dev/scope"), volcano + "scheduling.volcano.sh/queue", koordinator + "gang.scheduling.koordinator.sh/name"}},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.PodSpec{SchedulerName: tc.scheduler}}
		for _, key := range tc.keys {
			pod.Annotations[key] = "x"
		}
		if got := IgnoredAnnotations(pod); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestWarningsFitIntoEvents: a note of an event has at most 1024 bytes, and anybody may write keys
// of 317 bytes.
func TestWarningsFitIntoEvents(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
	for i := range 700 {
		pod.Annotations[fmt.Sprintf("%s%063d", OwnPrefix, i)] = ""
		for _, d := range unspoken {
			for _, p := range d.Prefixes {
				pod.Annotations[fmt.Sprintf("%s%063d", p, i)] = ""
			}
		}
	}
	got := IgnoredAnnotations(pod)
	if len(got) != 1+len(unspoken) {
		t.Errorf("got %q", got)
	}
	for _, text := range got {
		if len(text) > 1024 {
			t.Errorf("%d bytes: %s", len(text), text)
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
		for _, p := range d.Prefixes {
			if strings.Count(p, "/") != 1 || !strings.HasSuffix(p, "/") {
				t.Errorf("prefix %q of %s: want a domain and a slash", p, d.Name)
			}
		}
		for _, key := range append(d.Keys, d.Prefixes...) {
			if other := seen[key]; other != "" || strings.HasPrefix(key, OwnPrefix) || !strings.Contains(key, "/") {
				t.Errorf("key %q of %s: want a domain other than Berth's, once (%s)", key, d.Name, other)
			}
			seen[key] = d.Name
		}
	}
}

// TestIgnoredAnnotationsNoAlloc: every pod that is scheduled is asked.
func TestIgnoredAnnotationsNoAlloc(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{PolicyAnnotation: "restricted", "example.com/x": "y"}}}
	if n := testing.AllocsPerRun(100, func() { IgnoredAnnotations(pod) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
