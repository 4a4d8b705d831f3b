package wake

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/ledger"
	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/golden"
)

// TestStories plays testdata/*.txt: events in a cluster, and the pods that they wake.
// testdata/README.md explains the syntax.
func TestStories(t *testing.T) {
	golden.Stories(t, func(t *testing.T) golden.Stage {
		return &stage{cluster: newCluster(t), on: map[string]*ledger.Node{}}
	})
}

// stage is a cluster in which a story is played.
type stage struct {
	*cluster
	// on has the node of each pod.
	on   map[string]*ledger.Node
	said []string
}

// note adds the pods that a line has woken to the output.
func (s *stage) note() {
	if woken := s.edge.take(); len(woken) > 0 {
		s.said = append(s.said, "woken: "+strings.Join(woken, " "))
	}
}

// Tell returns the results of the lines before.
func (s *stage) Tell() string {
	said := s.said
	if s.said = nil; len(said) == 0 {
		return "nobody is woken\n"
	}
	return strings.Join(said, "\n") + "\n"
}

// Do performs one step, and notes the pods that it wakes.
func (s *stage) Do(word string, args []string) error {
	err := s.happen(word, args)
	s.note()
	return err
}

// happen performs one step.
func (s *stage) happen(word string, args []string) error {
	switch word {
	case "node":
		s.addNode(args[0], strings.Join(args[1:], " "))
		return nil
	case "pod":
		return s.podIs(args[0], args[1:])
	case "takeover":
		s.waiters.WakeAll()
		return nil
	case "pass":
		d, err := time.ParseDuration(args[0])
		s.edge.step(d)
		return err
	case "report", "back":
		return s.hear(word, args)
	case "begin", "try", "runs", "bound", "end":
		return s.move(word, args)
	}
	return errors.New("no such word")
}

// podIs makes pods that differ only in their names: "a,b cpus=4 created=1 priority=7".
func (s *stage) podIs(names string, args []string) error {
	facts := map[string]int64{"created": 500}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return err
		}
		facts[key] = n
	}
	for name := range strings.SplitSeq(names, ",") {
		s.addPod(name, facts["cpus"], facts["created"]).Priority = int32(facts["priority"])
	}
	return nil
}

// hear delivers news of nodes to the scheduler.
func (s *stage) hear(word string, names []string) error {
	for _, name := range names {
		n := s.nodes[name]
		if n == nil {
			return fmt.Errorf("no node %s", name)
		}
		if word == "report" {
			s.report(n)
			continue
		}
		s.accept(n)
		s.waiters.NodeReturned(n)
	}
	return nil
}

// move performs a step for pods: "runs a,b n", "try a,b".
func (s *stage) move(word string, args []string) error {
	for name := range strings.SplitSeq(args[0], ",") {
		p := s.pods[name]
		if p == nil {
			return fmt.Errorf("no pod %s", name)
		}
		switch word {
		case "begin":
			s.waiters.Add(p.Pod, &p.Candidate)
		case "try":
			s.try(p)
		case "end":
			s.end(s.on[name], p)
		case "runs":
			s.on[name] = s.nodes[args[1]]
			s.start(s.on[name], p)
		case "bound":
			s.on[name] = s.nodes[args[1]]
			s.bind(s.on[name], p)
		}
	}
	return nil
}

// try asks all nodes, and places the pod on the first that admits it. If none does, the attempt
// fails because of all nodes.
func (s *stage) try(p *pod) {
	s.waiters.Add(p.Pod, &p.Candidate)
	var waiting, refusing []Node
	var why []string
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		switch a := n.View().Ask(ledger.Question{Candidate: &p.Candidate}); a.Outcome {
		case ledger.Admitted:
			n.Reserve(&p.Candidate, new(placement.Decision))
			s.waiters.Done(p.UID)
			s.on[p.Name] = n
			s.said = append(s.said, fmt.Sprintf("%s has a place on %s", p.Name, name))
			return
		case ledger.Waiting:
			waiting = append(waiting, n)
			why = append(why, name+" waits")
		case ledger.Refused:
			refusing = append(refusing, n)
			why = append(why, name+" refuses")
		case ledger.Unreported:
			why = append(why, name+" has not reported")
		}
	}
	s.waiters.Blame(p.UID, waiting, refusing)
	s.said = append(s.said, fmt.Sprintf("%s: %s", p.Name, strings.Join(why, ", ")))
}
