package demo

import (
	"encoding/json"
	"strings"
	"testing"
)

// scraped is what a scheduler serves, cut down.
const scraped = `# HELP berth_scheduler_pod_delay_seconds [ALPHA] What pods spent their time on.
# TYPE berth_scheduler_pod_delay_seconds histogram
berth_scheduler_pod_delay_seconds_bucket{cause="room",le="0.256"} 420
berth_scheduler_pod_delay_seconds_bucket{cause="room",le="1.024"} 421
berth_scheduler_pod_delay_seconds_bucket{cause="room",le="4.096"} 423
berth_scheduler_pod_delay_seconds_bucket{cause="room",le="65.536"} 424
berth_scheduler_pod_delay_seconds_bucket{cause="room",le="+Inf"} 425
berth_scheduler_pod_delay_seconds_sum{cause="room"} 101.25
berth_scheduler_pod_delay_seconds_count{cause="room"} 425
berth_scheduler_pod_delay_seconds_bucket{cause="queue",le="0.256"} 425
berth_scheduler_pod_delay_seconds_bucket{cause="queue",le="+Inf"} 425
berth_scheduler_pod_delay_seconds_sum{cause="queue"} 0.75
berth_scheduler_pod_delay_seconds_count{cause="queue"} 425
berth_scheduler_searches_total{result="once"} 425
`

// TestReadDelays reads what a scheduler serves, and holds what a person is told and what a program.
func TestReadDelays(t *testing.T) {
	delays, err := readDelays(scraped)
	if err != nil {
		t.Fatal(err)
	}
	room := delays["room"]
	if room.Pods != 425 || room.Seconds != 101.25 || room.over(0.256) != 5 || room.over(1.024) != 4 || room.over(4.096) != 2 {
		t.Errorf("room: %+v", room)
	}
	if _, err := json.Marshal(delays); err != nil {
		t.Error(err)
	}
	var out strings.Builder
	if err := writeDelays(&out, []*Report{{Delays: delays}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"no node took it 101.2 5 4 2",
		"others came first 0.8 0 0 0",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("want %q in\n%s", want, &out)
		}
	}
	out.Reset()
	if err := writeDelays(&out, []*Report{{}}); err != nil || out.Len() > 0 {
		t.Errorf("%v, %q: want nothing where nothing was counted", err, &out)
	}
	if _, err := readDelays(`berth_scheduler_pod_delay_seconds_sum{cause="room"} much`); err == nil {
		t.Error("a sum that is no number is read")
	}
}
