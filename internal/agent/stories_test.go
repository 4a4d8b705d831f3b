package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/golden"
)

// TestStories plays testdata/*.txt: events on a node, and what the agent publishes then.
// testdata/README.md explains the syntax.
func TestStories(t *testing.T) {
	golden.Stories(t, func(t *testing.T) golden.Stage {
		s := &stage{world: newWorld(t)}
		s.m.presence.is(true)
		s.begun = s.clock
		return s
	})
}

// stage is a world in which a story is played.
type stage struct {
	*world
	begun   time.Time
	stretch time.Duration // how long to watch
	told    int           // writes that Tell has printed
}

// Do performs one step on the node.
func (s *stage) Do(word string, args []string) error {
	switch word {
	case "kubelet":
		return s.kubeletIs(args[0])
	case "config":
		return s.setConfig(args)
	case "machine":
		s.become(strings.Join(args, " "))
		s.m.lookAround(context.Background())
	case "pod":
		return s.podIs(args[0], args[1])
	case "cpus":
		held := map[string]string{}
		for _, arg := range args[1:] {
			uid, list, _ := strings.Cut(arg, "=")
			held[uid] = list
		}
		s.cpus(args[0], held)
	case "remove":
		s.files.CPU = nil
	case "admitted":
		s.admitted(args...)
	case "active":
		s.active = map[string]int{}
		for _, uid := range args {
			s.active["ns/pod-"+uid]++
		}
	case "wait":
		d, err := time.ParseDuration(args[0])
		s.stretch = d
		return err
	default:
		return errors.New("no such word")
	}
	return nil
}

func (s *stage) kubeletIs(what string) error {
	switch what {
	case "away":
		s.m.presence.is(false)
	case "back":
		s.m.presence.is(true)
		s.m.restarted()
	default:
		return errors.New("want away or back")
	}
	return nil
}

func (s *stage) setConfig(args []string) error {
	changed := *s.config
	for _, arg := range args {
		field, value, _ := strings.Cut(arg, "=")
		switch field {
		case "cpuManagerPolicy":
			changed.CPUManagerPolicy = value
		case "topologyManagerPolicy":
			changed.TopologyManagerPolicy = value
		case "reservedSystemCPUs":
			changed.ReservedSystemCPUs = value
		default:
			return fmt.Errorf("%s: no such field", field)
		}
	}
	s.config = &changed
	s.m.lookAround(context.Background())
	return nil
}

func (s *stage) podIs(uid, what string) error {
	switch what {
	case "bound":
		s.see(uid, corev1.PodPending)
	case "running":
		pod := s.pod(uid, corev1.PodRunning)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		s.m.pods.see(pod, s.clock)
	case "succeeded":
		s.see(uid, corev1.PodSucceeded)
	case "refused":
		pod := s.pod(uid, corev1.PodFailed)
		pod.Status.Message = "Pod was rejected: Resources cannot be allocated with Topology locality"
		s.m.pods.see(pod, s.clock)
	case "deleted":
		s.m.pods.lose(s.pod(uid, corev1.PodRunning), s.clock)
	default:
		return errors.New("want bound, running, succeeded, refused or deleted")
	}
	return nil
}

// Tell lets the agent work until nothing is left to do, or as long as the story waits, and returns
// what the agent published.
func (s *stage) Tell() string {
	var out strings.Builder
	until := s.clock.Add(30 * time.Second)
	if s.stretch > 0 {
		until = s.clock.Add(s.stretch)
	}
	for s.clock.Before(until) {
		n := s.m.step(context.Background())
		for ; s.told < len(s.writes); s.told++ {
			s.tell(&out)
		}
		switch {
		case n == settled && s.stretch == 0:
			until = s.clock
		case n == settled:
			s.clock = until
		default:
			s.clock = s.clock.Add(n.after)
		}
	}
	if s.clock.After(until) {
		s.clock = until
	}
	s.stretch = 0
	if out.Len() == 0 {
		return "nothing new\n"
	}
	return out.String()
}

// tell prints one report.
func (s *stage) tell(out *strings.Builder) {
	n, err := wire.ReadNodeTopology(s.writes[s.told])
	if err != nil {
		fmt.Fprintf(out, "unreadable: %v\n", err)
		return
	}
	after := s.clock.Sub(s.begun).Round(time.Millisecond)
	fmt.Fprintf(out, "%v report %d: shared %s\n", after, n.Report.Sequence, n.Report.Snapshot.SharedCPUs)
	for i, p := range n.Report.Snapshot.Pods {
		line := []string{"  " + p.UID}
		for _, c := range p.Containers {
			line = append(line, c.Name+"="+c.CPUs.String())
		}
		if state := n.Report.Pods[i].State; state != "" {
			line = append(line, string(state))
		}
		fmt.Fprintln(out, strings.Join(line, " "))
	}
	for _, c := range n.Report.Conditions {
		fmt.Fprintln(out, strings.TrimSuffix(fmt.Sprintf("  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message), ": "))
	}
}
