package reservation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/golden"
)

// TestStories plays testdata/*.txt: what happens to Reservations and their owners.
// testdata/README.md explains the syntax.
func TestStories(t *testing.T) {
	golden.BubbleStories(t, func(t *testing.T) golden.Stage {
		s := &scene{world: newWorld(t), pods: map[string]*corev1.Pod{}}
		t.Cleanup(func() { s.rs.dirty.ShutDown() })
		return s
	})
}

// scene is a world in which a story is played.
type scene struct {
	*world
	// pods are the pods of the story. Those with a node were placed by a Reservation.
	pods map[string]*corev1.Pod
	said []string
}

// Do performs one step, ends the cycle, and waits for all goroutines.
func (s *scene) Do(word string, args []string) error {
	err := s.happen(word, args)
	synctest.Wait()
	s.rs.Between()
	s.told()
	synctest.Wait()
	var woken []string
	for len(s.activated) > 0 {
		woken = append(woken, strings.TrimPrefix(<-s.activated, "ns/"))
	}
	if slices.Sort(woken); len(woken) > 0 {
		s.said = append(s.said, "woken: "+strings.Join(woken, " "))
	}
	return err
}

// restart starts a new scheduler. Its account has the pods of the Bindings.
func (s *scene) restart() {
	for uid := range s.rs.all {
		s.account.Release(string(uid))
	}
	s.rs.dirty.ShutDown()
	s.begin()
	for _, pod := range s.pods {
		s.rs.PodSeen(pod)
	}
}

func (s *scene) happen(word string, args []string) error {
	switch word {
	case "restart":
		s.restart()
	case "reservation":
		return s.create(args[0], args[1:])
	case "owner":
		return s.owner(args)
	case "place":
		s.say(s.cycle(types.UID(args[0]+"-uid")), args[0]+" has its place")
	case "spoil":
		s.spoil(types.UID(args[0] + "-uid"))
	case "delete":
		uid := types.UID(args[0] + "-uid")
		delete(s.objects, uid)
		s.rs.ObjectGone(uid)
	case "api":
		if s.refuse = nil; args[0] == "refuses" {
			s.refuse = errors.New("the API server refuses it")
		}
	case "node":
		if s.nodeGone = args[0] == "gone"; s.nodeGone {
			s.rs.NodeGone("n")
		} else {
			s.rs.NodeBack("n")
		}
	case "report":
		s.account.ForgetGone(s.clock.Now().Add(time.Hour), time.Minute)
		s.rs.Stir()
	case "pass":
		d, err := time.ParseDuration(args[0])
		s.clock.Step(d)
		return err
	case "take", "end", "alone":
		return s.move(word, args)
	default:
		return errors.New("no such word")
	}
	return nil
}

// create makes a Reservation: "r cpus=4 many restricted for=1h claims=a".
func (s *scene) create(name string, args []string) error {
	cpus, edits := 0, []func(*koordinator.Reservation){}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "cpus":
			cpus, _ = strconv.Atoi(value)
		case "many":
			edits = append(edits, many)
		case "restricted":
			edits = append(edits, restricted)
		case "for":
			edits = append(edits, func(o *koordinator.Reservation) {
				d, _ := time.ParseDuration(value)
				o.Spec.TTL = &metav1.Duration{Duration: d}
			})
		case "claims":
			edits = append(edits, func(o *koordinator.Reservation) { s.claim(o, value) })
		default:
			return fmt.Errorf("no such word: %s", arg)
		}
	}
	s.reservation(name, cpus, edits...)
	return nil
}

// spoil makes an object request a feature that is not supported.
func (s *scene) spoil(uid types.UID) {
	o := s.objects[uid].DeepCopy()
	s.versions++
	o.ResourceVersion, o.Spec.PreAllocation = fmt.Sprint(s.versions), true
	s.objects[uid] = o
}

// claim writes a status that claims the CPUs of a pod for the object.
func (s *scene) claim(o *koordinator.Reservation, pod string) {
	d, _ := s.account.View().Promised(pod)
	d.UID = string(o.UID)
	text, err := wire.WritePlacement(&wire.Placement{Sequence: 1, Certainty: wire.Exact, Guarantee: wire.GuaranteeFull, Decision: d})
	if err != nil {
		s.t.Error(err)
	}
	o.Annotations = map[string]string{wire.PlacementAnnotation: text}
	o.Status = koordinator.ReservationStatus{Phase: koordinator.ReservationAvailable, NodeName: "n"}
}

// owner makes pods: "a,b of=r cpus=2".
func (s *scene) owner(args []string) error {
	cpus, err := strconv.Atoi(strings.TrimPrefix(args[2], "cpus="))
	for name := range strings.SplitSeq(args[0], ",") {
		s.pods[name] = ownerOf(name, strings.TrimPrefix(args[1], "of="), cpus)
	}
	return err
}

// move performs a step for pods: "take a,b".
func (s *scene) move(word string, args []string) error {
	for name := range strings.SplitSeq(args[0], ",") {
		pod := s.pods[name]
		if pod == nil {
			return fmt.Errorf("no pod %s", name)
		}
		switch word {
		case "take":
			s.sent(pod)
		case "alone":
			var d placement.Decision
			s.said = append(s.said, fmt.Sprintf("%s: %s", name, s.account.Reserve(candidate(s.t, pod), &d).Outcome))
		case "end":
			s.account.Gone(name, s.clock.Now())
			s.rs.PodGone(pod)
			delete(s.pods, name)
		}
	}
	return nil
}

// sent plays the cycle of a pod, which may use a Reservation.
func (s *scene) sent(pod *corev1.Pod) {
	cpus, sent := s.take(pod)
	switch {
	case !sent:
		s.said = append(s.said, pod.Name+" is tried as any other pod")
	case cpus.IsEmpty():
		s.said = append(s.said, pod.Name+" does not get its place")
	default:
		s.said = append(s.said, fmt.Sprintf("%s has CPUs %s of its place", pod.Name, &cpus))
		of := types.UID(pod.Labels["of"] + "-uid")
		bound := pod.DeepCopy()
		bound.Spec.NodeName = "n"
		bound.Annotations = map[string]string{wire.AllocatedAnnotation: fmt.Sprintf(`{"name":%q,"uid":%q}`, pod.Labels["of"], of)}
		s.pods[pod.Name] = bindFor(bound, of)
	}
}

// say adds the error, or well if there is none, to the output.
func (s *scene) say(err error, well string) {
	if err != nil {
		well = err.Error()
	}
	s.said = append(s.said, well)
}

// Tell returns the results of the lines before, and the state of Reservations and the node.
func (s *scene) Tell() string {
	out := s.said
	s.said = nil
	for _, uid := range slices.Sorted(maps.Keys(s.objects)) {
		out = append(out, s.how(uid))
	}
	out = append(out, fmt.Sprintf("%d CPUs of the node are free", s.free()))
	return strings.Join(out, "\n") + "\n"
}

// how returns the state of a Reservation in its object, the queue and the cache.
func (s *scene) how(uid types.UID) string {
	status := &s.objects[uid].Status
	text := fmt.Sprintf("%s: %s", s.objects[uid].Name, status.Phase)
	if status.NodeName != "" {
		text += " on " + status.NodeName
	}
	if held := s.cached[uid]; held != nil {
		text += fmt.Sprintf(", holds %s CPUs", held.Spec.Containers[0].Resources.Requests.Cpu())
	}
	for i, owner := range status.CurrentOwners {
		text += []string{", used by ", " "}[min(i, 1)] + owner.Name
	}
	if s.queued[uid] != nil {
		text += ", in the queue"
	}
	for _, c := range status.Conditions {
		if c.Message != "" && status.Phase != koordinator.ReservationAvailable {
			text += ": " + c.Message
		}
	}
	return text
}
