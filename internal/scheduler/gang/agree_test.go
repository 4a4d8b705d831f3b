package gang

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
	"github.com/berth-dev/berth/internal/gangs"
	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
)

// TestSurveyAgrees shows the same 500 random gangs to the scheduler and, as a snapshot, to the
// command line. Both agree on the progress of each gang and on the number of members with nodes.
func TestSurveyAgrees(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		random := rand.New(rand.NewPCG(29, 500))
		var pods []*corev1.Pod
		var objects []*volcano.PodGroup
		w.objects = map[wire.GangKey]wire.Gang{}
		w.groups.book.Objects = w
		keys, wrongs := map[string]wire.GangKey{}, map[wire.GangKey]error{}
		for i := range 500 {
			name := fmt.Sprintf("g%03d", i)
			var key wire.GangKey
			if random.IntN(2) == 0 {
				key = wire.GangKey{Source: wire.GangOfPods, Namespace: "default", Name: name}
				pods = append(pods, membersOf(random, name, 1+random.IntN(6), "")...)
			} else {
				o := groupOf(random, name)
				spec, wrong := wire.ReadVolcanoGroup(o)
				key, objects = spec.Key, append(objects, o)
				w.objects[key] = spec
				wrongs[key] = wrong
				pods = append(pods, membersOf(random, name, 0, name)...)
			}
			keys[name] = key
		}
		w.groups.book.synced = false // these pods were there at the start
		for _, p := range pods {
			w.groups.PodSeen(p)
		}
		for key, spec := range w.objects {
			w.groups.ObjectSeen(spec, wrongs[key])
		}
		shown, err := opened(t, map[string]any{"kind": "BerthSnapshot", "version": 1, "taken": time.Unix(1_700_000_200, 0), "staleAfter": "1m", "pods": pods, "podGroups": objects}).Gangs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		states := map[gangs.Stage]int{}
		for i := range shown.Gangs {
			says := &shown.Gangs[i]
			w.groups.book.mu.Lock()
			g := w.groups.book.groups[keys[says.Name]]
			w.groups.book.mu.Unlock()
			if g == nil {
				if says.Members > 0 && says.State != gangs.Completed {
					t.Errorf("%s: %s with %d pods, and the scheduler knows none", says.Name, says.State, says.Members)
				}
				continue
			}
			if len(g.activePods()) == 0 && says.State != gangs.Completed {
				continue // if all pods are ending, the scheduler uses their earlier annotations
			}
			states[says.State]++
			if got := g.state(); got != says.State || g.done.All != says.Bound+says.Succeeded {
				t.Errorf("%s of %d: the scheduler says %s, %d done; the command line %s (%s), %d done", says.Name, says.Minimum, got, g.done.All, says.State, says.Why, says.Bound+says.Succeeded)
			}
		}
		if len(states) < 6 {
			t.Errorf("the gangs are in few states: %v", states)
		}
	})
}

// membersOf returns up to eight random pods of a gang. minimum is in their annotations, or object
// is the name of their PodGroup.
func membersOf(random *rand.Rand, gang string, minimum int, object string) (pods []*corev1.Pod) {
	steady := random.IntN(3) == 0 // for all bound pods
	for i := range random.IntN(8) {
		p := podOf(gang, fmt.Sprintf("%s-%d", gang, i), minimum, 1)
		p.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000+random.Int64N(3), 0))
		task := string("ab"[random.IntN(2)])
		switch {
		case object != "":
			p.Annotations = map[string]string{volcano.GroupNameAnnotation: object, volcano.TaskSpecAnnotation: task}
		case random.IntN(40) == 0:
			p.Annotations[wire.GangMinimumAnnotation] = fmt.Sprint(minimum + 1)
		case random.IntN(40) == 0:
			p.Annotations[wire.GangMinimumAnnotation] = "some"
		}
		p.Status.Phase = corev1.PodPending
		if steady || random.IntN(2) == 0 {
			p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
			switch random.IntN(6) {
			case 0:
				p.Status.Phase = corev1.PodSucceeded
			case 1:
				p.Status.Phase = corev1.PodFailed
			}
		}
		switch random.IntN(10) {
		case 0:
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_100, 0)}
		case 1:
			if p.Spec.NodeName == "" {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "not-yet"}}
			}
		case 2:
			if p.Spec.NodeName != "" {
				p.Status.Conditions = []corev1.PodCondition{{Type: wire.GangWholeCondition, Status: corev1.ConditionTrue}}
			}
		}
		pods = append(pods, p)
	}
	return pods
}

// groupOf returns a PodGroup of Volcano.
func groupOf(random *rand.Rand, name string) *volcano.PodGroup {
	o := &volcano.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", ResourceVersion: "5"}}
	o.TypeMeta = metav1.TypeMeta{APIVersion: volcano.GroupVersion.String(), Kind: "PodGroup"}
	o.Spec.MinMember = 1 + random.Int32N(6)
	if random.IntN(3) == 0 {
		o.Spec.MinTaskMember = map[string]int32{"a": random.Int32N(3)}
	}
	o.Status.Phase = volcano.PodGroupInqueue
	return o
}

// opened opens a snapshot as the command line does.
func opened(t *testing.T, snapshot map[string]any) *survey.Cluster {
	t.Helper()
	var file bytes.Buffer
	packed := gzip.NewWriter(&file)
	err := json.NewEncoder(packed).Encode(snapshot)
	if err == nil {
		err = packed.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := survey.Open(&file, "gangs")
	if err != nil {
		t.Fatal(err)
	}
	return c
}
