package wire

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
)

// koordinatorGangPod returns a pod of gang a with a minimum of two, and with more annotations.
func koordinatorGangPod(name string, more ...string) *corev1.Pod {
	said := map[string]string{koordinatorGang: "a", koordinatorGangMinimum: "2"}
	for _, m := range more {
		key, value, _ := strings.Cut(m, "=")
		said[koordinatorGangs+key] = value
	}
	pod := gangPod(said, nil)
	pod.Name = name
	return pod
}

// TestKoordinatorGangs: each annotation is read, or refused by name.
func TestKoordinatorGangs(t *testing.T) {
	alone := Declaration{Minimum: 2, Timeout: 10 * time.Minute, Once: true}
	with := func(change func(*Declaration)) Declaration {
		d := alone
		change(&d)
		return d
	}
	for said, want := range map[string]Declaration{
		"":                                 alone,
		"waiting-time=90s":                 with(func(d *Declaration) { d.Timeout = 90 * time.Second }),
		"total-number=3":                   alone,
		"mode=Strict":                      alone,
		"mode=NonStrict":                   alone,
		"match-policy=once-satisfied":      alone,
		"match-policy=waiting-and-running": with(func(d *Declaration) { d.Once = false }),
		`groups=["ns/a"]`:                  alone,
		`groups=["ns/b","ns/a","ns/b"]`:    with(func(d *Declaration) { d.Part, d.Parts = "a", "a,b" }),
	} {
		m, err := ReadMembership(koordinatorGangPod("p", said))
		if err != nil || m.Declaration != want || m.Gang != (GangKey{GangOfKoordinator, "ns", "a"}) || m.Task != want.Part {
			t.Errorf("%s: %+v, %v; want %+v", said, m, err, want)
		}
	}
	for said, key := range map[string]string{
		"min-available=": "min-available", "min-available=0": "min-available", "min-available=5000": "min-available", "total-number=1": "total-number",
		"waiting-time=600": "waiting-time", "waiting-time=-1s": "waiting-time", "mode=strict": "mode", "match-policy=only-waiting": "match-policy",
		"match-policy=x": "match-policy", "groups=a": "groups", `groups=["other/a"]`: "groups", `groups=["ns/b"]`: "groups", `groups=["ns/A"]`: "groups",
		"groups=[" + strings.Repeat(" ", maxKoordinatorText) + "]": "groups",
	} {
		_, err := ReadMembership(koordinatorGangPod("p", said))
		var wrong *FieldError
		if !errors.As(err, &wrong) || wrong.Field != "metadata.annotations["+koordinatorGangs+key+"]" {
			t.Errorf("%.40s: %v, want an error about %s", said, err, key)
		}
	}
}

// TestGangsThatStartTogether: several gangs become one, whose parts have their own minima. A part
// without pods is waited for.
func TestGangsThatStartTogether(t *testing.T) {
	const groups = `groups=["ns/a","ns/b","ns/c"]`
	pods := []*corev1.Pod{
		koordinatorGangPod("a-0", groups), koordinatorGangPod("a-1", groups),
		koordinatorGangPod("b-0", groups, "name=b", "min-available=3"),
	}
	key := GangKey{GangOfKoordinator, "ns", "a"}
	g, err := GangOfMembers(key, pods)
	if err != nil || g.Minimum != 6 || !maps.Equal(g.Tasks, map[string]int{"a": 2, "b": 3, "c": 1}) || g.Timeout != 10*time.Minute || !g.Once {
		t.Errorf("%+v, %v", g, err)
	}
	for text, other := range map[string]*corev1.Pod{
		"min-available]: \"4\": want 3, as pod b-0":       koordinatorGangPod("b-1", groups, "name=b", "min-available=4"),
		"groups]: \"\": want \"a,b,c\", as pod a-0":       koordinatorGangPod("a-2"),
		"waiting-time]: \"1m0s\": want 10m0s":             koordinatorGangPod("c-0", groups, "name=c", "waiting-time=1m"),
		"match-policy]: \"waiting-and-running\"":          koordinatorGangPod("c-0", groups, "name=c", "match-policy=waiting-and-running"),
		"groups]: \"4101 pods\": want gangs that need at": koordinatorGangPod("c-0", groups, "name=c", "min-available=4096"),
	} {
		if _, err := GangOfMembers(key, append(pods[:3:3], other)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

// TestReadKoordinatorGroup: a PodGroup of scheduling.sigs.k8s.io, with its label on pods and with
// Koordinator's own annotations.
func TestReadKoordinatorGroup(t *testing.T) {
	m, err := ReadMembership(gangPod(nil, map[string]string{"pod-group.scheduling.sigs.k8s.io": "a"}))
	if err != nil || m != (Membership{Gang: GangKey{GangOfKoordinatorGroup, "ns", "a"}}) {
		t.Errorf("%+v, %v", m, err)
	}
	group := func(said map[string]string) *sigs.PodGroup {
		return &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Annotations: said}, Spec: sigs.PodGroupSpec{MinMember: 4}}
	}
	g, err := ReadKoordinatorGroup(group(nil))
	if err != nil || g.Minimum != 4 || !g.Once || g.Timeout != 10*time.Minute || g.Key != m.Gang {
		t.Errorf("%+v, %v", g, err)
	}
	g, err = ReadKoordinatorGroup(group(map[string]string{koordinatorGangPolicy: "waiting-and-running", koordinatorGangTimeout: "5s"}))
	if err != nil || g.Once || g.Timeout != 5*time.Second {
		t.Errorf("%+v, %v", g, err)
	}
	for key, text := range map[string]string{koordinatorGangGroups: `["ns/a","ns/b"]`, koordinatorGangMode: "x", koordinatorGangTimeout: "x"} {
		if _, err := ReadKoordinatorGroup(group(map[string]string{key: text})); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	both := group(map[string]string{koordinatorGang: "b", koordinatorGangMinimum: "2", koordinatorGangTimeout: "x", koordinatorGangTotal: "3"})
	seconds := int32(7)
	both.Spec.ScheduleTimeoutSeconds = &seconds
	g, err = ReadKoordinatorGroup(both)
	const want = `gang.scheduling.koordinator.sh/min-available "2": spec.minMember counts; gang.scheduling.koordinator.sh/name "b": metadata.name counts; ` +
		`gang.scheduling.koordinator.sh/total-number "3": spec.minMember counts; gang.scheduling.koordinator.sh/waiting-time "x": spec.scheduleTimeoutSeconds counts`
	if err != nil || g.Timeout != 7*time.Second || g.Ignored != want {
		t.Errorf("%v, ignored: %s", err, g.Ignored)
	}
}
