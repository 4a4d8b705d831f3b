package gang

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/test/golden"
)

// TestStories plays testdata/*.txt: events in a cluster with gangs, the scheduler's actions, and
// where the pods are then. testdata/README.md explains the syntax.
func TestStories(t *testing.T) {
	golden.BubbleStories(t, func(t *testing.T) golden.Stage { return &stage{world: newWorld(t, 0)} })
}

// stage is a world in which a story is played.
type stage struct {
	*world
	gangs []string
}

// Do performs one step of the story.
func (s *stage) Do(word string, args []string) error {
	facts := map[string]int{"pods": 1, "cpus": 1}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		facts[key] = n
	}
	switch name := args[0]; word {
	case "nodes":
		n, err := strconv.Atoi(name)
		s.addNodes(n)
		return err
	case "gang":
		s.gang(name, facts)
	case "refuse":
		s.refuse[name] = facts["times"]
	case "break":
		s.breakBind[name] = facts["times"]
	case "remove":
		s.remove(name)
	case "end":
		s.end(name)
	case "waits":
		s.pending = map[string]bool{name: true}
	case "reports":
		delete(s.pending, name)
		s.groups.Stir()
	case "run":
		d, err := time.ParseDuration(name)
		s.run(d)
		return err
	default:
		return errors.New("no such word")
	}
	return nil
}

// gang creates more pods of a gang.
func (s *stage) gang(name string, facts map[string]int) {
	if !slices.Contains(s.gangs, name) {
		s.gangs = append(s.gangs, name)
	}
	for range facts["pods"] {
		made := 0
		for s.pods[types.UID(fmt.Sprintf("%s-%d", name, made))] != nil {
			made++
		}
		pod := podOf(name, fmt.Sprintf("%s-%d", name, made), cmp.Or(facts["minimum"], facts["pods"]), facts["cpus"])
		pod.Spec.Priority = new(int32(facts["priority"]))
		s.create(pod)
	}
}

// Tell returns what the scheduler has done, and where the pods are.
func (s *stage) Tell() string {
	var out strings.Builder
	if said := s.said(); said != "" {
		fmt.Fprintln(&out, said)
	}
	for _, name := range slices.Sorted(slices.Values(s.deleted)) {
		fmt.Fprintln(&out, "deleted:", name)
	}
	s.deleted = nil
	for _, name := range s.gangs {
		fmt.Fprintln(&out, name+": "+s.placesOf(name))
	}
	if held, bound := s.held(), s.boundAll(); held != bound {
		fmt.Fprintf(&out, "%d places are held for pods that are not bound\n", held-bound)
	}
	return out.String()
}

// placesOf returns the state of a gang, and its pods on each node.
func (s *stage) placesOf(name string) string {
	state := "gone"
	s.groups.book.mu.Lock()
	for key, g := range s.groups.book.groups {
		if key.Name == name {
			state = string(g.state())
		}
	}
	s.groups.book.mu.Unlock()
	on := map[string][]string{}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		if node := s.pods[uid].Spec.NodeName; node != "" && strings.HasPrefix(string(uid), name+"-") {
			on[node] = append(on[node], string(uid))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(on)) {
		state += ", " + node + " has " + strings.Join(on[node], " ")
	}
	return state
}

func (s *stage) boundAll() (n int) {
	for _, name := range s.gangs {
		n += s.bound(name)
	}
	return n
}
