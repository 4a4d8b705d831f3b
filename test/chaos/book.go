package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const clockFormat = "15:04:05.000"

// book records the operations of the test and the cluster's faults.
type book struct {
	out   io.Writer
	seed  uint64
	begun time.Time
	each  bool // prints a line for each fault
	// logs returns the logs of a node's processes, by name.
	logs func(node string) map[string]string

	mu         sync.Mutex
	faults     []span
	done       []string // operations that were carried out, with their moments
	counts     map[Kind]int
	violations []string
	notes      []string
}

// span is a fault with its target and time.
type span struct {
	kind     Kind
	target   string
	from, to time.Time
	idle     bool // the target was a scheduler that did not lead
}

// did records an operation and the current leader.
func (b *book) did(o *Op, leading string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.counts[o.Kind]++
	b.done = append(b.done, now.UTC().Format(clockFormat)+" "+o.String())
	if o.Kind != Create && o.Kind != Delete && o.Kind != ForceDelete {
		if b.each {
			fmt.Fprintln(b.out, o)
		}
		b.faults = append(b.faults, span{o.Kind, o.Target, now, now.Add(o.For), isScheduler(o.Target) && o.Target != leader && o.Target != leading})
	}
}

// lastKill returns when the process was last killed, and when it was or will be started again. Zero
// means never.
func (b *book) lastKill(target string) (died, back time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.faults {
		if s.kind == Kill && s.target == target && s.from.After(died) {
			died, back = s.from, s.to
		}
	}
	return died, back
}

// targets summarizes the targets of the operations by kind: "agent 3, etcd 1"; "" for operations on
// pods. The caller holds mu.
func (b *book) targets(k Kind) string {
	sorts := map[string]int{}
	for _, s := range b.faults {
		if s.kind == k {
			sort, _, _ := strings.Cut(s.target, "-")
			sorts[sort]++
		}
	}
	var out []string
	for _, sort := range slices.Sorted(maps.Keys(sorts)) {
		out = append(out, fmt.Sprint(sort, " ", sorts[sort]))
	}
	return strings.Join(out, ", ")
}

// recovery is how long a fault may have effects after its end: clients reconnect with a back-off.
const recovery = 4 * time.Second

// disturbed returns the last fault between the two moments that may have broken the assumptions of
// exact placements on the node, or nil. The assumptions are that the scheduler learns about a
// deletion, and the kubelet about a Binding, before the containers have stopped.
func (b *book) disturbed(node string, from, to time.Time) (by *span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.faults {
		s, after := &b.faults[i], recovery
		switch {
		case s.target == "node-"+node && s.kind == Kill:
			after = afterRestart
		case s.target != "node-"+node && !s.deafens():
			continue
		}
		if !to.Before(s.from) && from.Before(s.to.Add(after)) {
			by = s
		}
	}
	return by
}

func isScheduler(target string) bool {
	return target == leader || strings.HasPrefix(target, "scheduler-")
}

// deafens reports whether the fault may delay watch events of the scheduler. A killed scheduler
// does not place pods with old data, because its successor first reads everything.
func (s *span) deafens() bool {
	if isScheduler(s.target) {
		return s.kind != Kill && s.kind != Jump && !s.idle
	}
	return s.target == apiServerName || s.target == storageName
}

// deafened reports whether a fault may have delayed watch events of the scheduler between the two
// moments.
func (b *book) deafened(from, to time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.faults, func(s span) bool {
		return s.deafens() && s.from.Before(to) && from.Before(s.to.Add(recovery))
	})
}

// String describes the fault in a line.
func (s *span) String() string {
	return fmt.Sprintf("%s %s from %s to %s", s.kind, s.target, s.from.UTC().Format(clockFormat), s.to.UTC().Format(clockFormat))
}

// note records a notable event that is not a violation.
func (b *book) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, time.Now().UTC().Format(clockFormat)+" "+text)
}

// count returns the number of violations.
func (b *book) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.violations)
}

// The number of last operations, and the length of each log's end, that are printed with a
// violation.
const (
	shownOps      = 40
	shownLogBytes = 3000
	// shownInFull is how many violations are printed with logs and objects.
	shownInFull = 2
)

// violate prints a violation with seed, time, objects, the last operations and the tails of the
// logs that concern the node.
func (b *book) violate(text, node string, objects ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if slices.Contains(b.violations, text) {
		return
	}
	b.violations = append(b.violations, text)
	fmt.Fprintf(b.out, "\nVIOLATION %d, seed %d, at %.1fs (%s): %s\n", len(b.violations), b.seed, now.Sub(b.begun).Seconds(), now.UTC().Format(clockFormat), text)
	if len(b.violations) > shownInFull {
		return
	}
	for _, o := range objects {
		data, err := json.Marshal(o)
		if err != nil {
			data = []byte(err.Error())
		}
		fmt.Fprintf(b.out, "object: %s\n", data)
	}
	fmt.Fprintf(b.out, "last operations:\n  %s\n", strings.Join(b.done[max(0, len(b.done)-shownOps):], "\n  "))
	for name, log := range b.logs(node) {
		text, err := os.ReadFile(log)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(b.out, "log of %s:\n%s\n", name, text[max(0, len(text)-shownLogBytes):])
	}
}

// afterRestart is how long the restart of a kubelet may have effects: device plugins register
// again, and the kubelet removes pods that have ended.
const afterRestart = 20 * time.Second
