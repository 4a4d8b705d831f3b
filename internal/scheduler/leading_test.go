package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/internal/scheduler/lead"
)

// TestOneReplicaTells: a replica that does not lead sends no events. When it starts to lead, it
// sends only recent ones.
func TestOneReplicaTells(t *testing.T) {
	clock, to, gate := testingclock.NewFakeClock(time.Unix(1000, 0)), events.NewFakeRecorder(2*maxEarly), new(lead.Gate)
	l := newLeading(to, gate, clock)
	tell := func(note string) {
		l.Eventf(&corev1.Pod{}, nil, corev1.EventTypeWarning, "ReportRefused", "Reporting", "%s", note)
	}
	tell("long ago")
	clock.Step(2 * earlyLasts)
	tell("shortly before")
	for i := range 3 * maxEarly {
		tell(fmt.Sprint("one of many ", i))
	}
	if len(to.Events) > 0 || len(l.early) > maxEarly {
		t.Fatalf("%d events are told before it leads, %d are kept", len(to.Events), len(l.early))
	}
	gate.Open()
	tell("now")
	if first := <-to.Events; len(to.Events) != maxEarly || !strings.HasSuffix(first, "shortly before") || l.early != nil {
		t.Errorf("%d events are told, the first is %q", len(to.Events)+1, first)
	}
	for len(to.Events) > 1 {
		<-to.Events
	}
	if last := <-to.Events; !strings.HasSuffix(last, "now") {
		t.Errorf("the last is %q", last)
	}
}
