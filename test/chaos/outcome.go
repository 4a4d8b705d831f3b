package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/test/trial"
)

// outcome is a line of a scheduler's log about a promise that was not kept.
type outcome struct {
	read           time.Time
	node, uid, how string
}

var outcomeLine = regexp.MustCompile(`"A promise was not kept".* node="([^"]+)" uid="([^"]+)" outcome="([^"]+)"`)

// follower reads new content of files; the zero value starts at their beginning.
type follower struct{ offsets map[string]int64 }

// read returns the whole lines that have been added.
func (f *follower) read(file string) ([]byte, error) {
	open, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	if f.offsets == nil {
		f.offsets = map[string]int64{}
	}
	fresh, err := io.ReadAll(io.NewSectionReader(open, f.offsets[file], math.MaxInt64-f.offsets[file]))
	if err != nil {
		return nil, err
	}
	fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1]
	f.offsets[file] += int64(len(fresh))
	return fresh, nil
}

// outcomes follows the schedulers' logs, which continue after a restart.
type outcomes struct {
	follower
	waiting []outcome
	told    map[string]bool // outcomes that were handled, by UID and outcome, because both schedulers log them
}

// read reads the new content since the last call.
func (s *outcomes) read(log string, now time.Time) error {
	fresh, err := s.follower.read(log)
	if err != nil {
		return err
	}
	for _, m := range outcomeLine.FindAllSubmatch(fresh, -1) {
		out := outcome{now, string(m[1]), string(m[2]), string(m[3])}
		if key := out.uid + " " + out.how; !s.told[key] {
			s.told[key] = true
			s.waiting = append(s.waiting, out)
		}
	}
	return nil
}

// outcome judges a broken promise that the scheduler reports. If another scheduler's pod came in
// between, the outcome must be contended. Otherwise it needs an excuse.
func (o *observer) outcome(s *outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally.outcomes[s.how]++
	w := o.pods[types.UID(s.uid)]
	if w == nil || s.how == "contended" {
		return
	}
	text := fmt.Sprintf("scheduler: pod %s on %s: %s", w.pod.Name, s.node, s.how)
	switch disturbed := o.book.disturbed(s.node, s.read, s.read); {
	case o.contended(w, o.landed(w)):
		o.book.violate(text+", and the log should say "+w.excuse, s.node, o.evidence(w)...)
	case w.excuse == "" && disturbed == nil && o.book.disturbed(s.node, w.bound, w.bound) == nil:
		o.book.violate(text+", and has no excuse", s.node, o.evidence(w)...)
	}
}

// landed returns the time at which the kubelet had certainly decided about the pod.
func (o *observer) landed(w *watched) time.Time {
	if h := o.holdings[string(w.pod.UID)]; h != nil {
		return h.first
	}
	return w.ended
}

// leaderPoll is the interval of searching the schedulers' logs for the leader.
const leaderPoll = 500 * time.Millisecond

// leadership is part of a log message of client-go's tools/leaderelection.
var leadership = []byte("uccessfully acquired lease")

// watchLeader searches the logs until ctx ends.
func (o *observer) watchLeader(ctx context.Context) {
	var f follower
	for range trial.Every(ctx, leaderPoll) {
		for i := range schedulers {
			name := fmt.Sprint("scheduler-", i)
			// A log that cannot be read is reported elsewhere.
			if fresh, err := f.read(o.cluster.procs[name].log); err == nil && bytes.Contains(fresh, leadership) {
				o.leads(name)
			}
		}
	}
}

// leads records a change of the leader. The new leader may be the same process after a restart.
func (o *observer) leads(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leader = name
	o.tally.leaders++
}
