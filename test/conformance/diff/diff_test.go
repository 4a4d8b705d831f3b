package diff

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/topology"
)

func TestResultsSeesEachField(t *testing.T) {
	yes, no := true, false
	event := func(change func(*cases.EventResult)) *cases.Result {
		e := cases.EventResult{Type: cases.Admit, UID: "u", Admitted: &yes, State: &cases.State{DefaultCPUs: "0-3", Memory: map[topology.NUMAID]cases.NodeMemory{0: {Cells: []topology.NUMAID{0}}}},
			Containers: []cases.ContainerResult{{Name: "c", CPUs: "4", Memory: []cases.MemoryBlock{{Type: "memory", Size: 1}}, Devices: map[string][]cases.DeviceOnNodes{"r": {{ID: "a"}, {ID: "b"}}}}}}
		change(&e)
		return &cases.Result{ID: "x", Events: []cases.EventResult{e}}
	}
	want := event(func(*cases.EventResult) {})
	for field, change := range map[string]func(*cases.EventResult){
		"admitted":              func(e *cases.EventResult) { e.Admitted = &no },
		"uid":                   func(e *cases.EventResult) { e.UID = "v" },
		"containers":            func(e *cases.EventResult) { e.Containers = nil },
		"containers[c].cpus":    func(e *cases.EventResult) { e.Containers[0].CPUs = "5" },
		"containers[c].hint":    func(e *cases.EventResult) { e.Containers[0].Hint.NUMA = []topology.NUMAID{} },
		"containers[c].memory":  func(e *cases.EventResult) { e.Containers[0].Memory[0].Size = 2 },
		"containers[c].devices": func(e *cases.EventResult) { e.Containers[0].Devices["r"][0].ID = "c" },
		"state.defaultCPUs":     func(e *cases.EventResult) { e.State.DefaultCPUs = "0" },
		"state.memory[0]": func(e *cases.EventResult) {
			e.State.Memory[0] = cases.NodeMemory{Assignments: 1, Cells: []topology.NUMAID{0}}
		},
		"state":                  func(e *cases.EventResult) { e.State = nil },
		"panic":                  func(e *cases.EventResult) { e.Panic = "x" },
		"readmitevents":          func(e *cases.EventResult) { e.Readmit = []cases.EventResult{{}} },
		"containers[c].devices ": func(e *cases.EventResult) { e.Containers[0].Devices["s"] = []cases.DeviceOnNodes{{ID: "z"}} },
	} {
		d := Results(want, event(change))
		if len(d) != 1 || d[0].Field != strings.TrimSpace(field) || d[0].Event != 0 {
			t.Errorf("%s: %v", field, d)
		}
	}
	same := event(func(e *cases.EventResult) {
		e.Message, e.Containers[0].Devices["r"][0].ID, e.Containers[0].Devices["r"][1].ID = "m", "b", "a"
	})
	if d := Results(want, same); d != nil {
		t.Errorf("order and message are compared: %v", d)
	}
	random := event(func(*cases.EventResult) {})
	random.Nondeterministic = true
	if d := Results(random, event(func(e *cases.EventResult) { e.Admitted = &no })); d != nil {
		t.Errorf("a random case counts: %v", d)
	}
}

func TestRecordedResultsEqualThemselves(t *testing.T) {
	f, err := cases.Open(filepath.Join("..", "..", "replay", "cases", "testdata", "recorded", "results.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count := 0
	for r, err := range cases.ReadResults(f) {
		if err != nil {
			t.Fatal(err)
		}
		if d := Results(r, r); d != nil {
			t.Fatalf("%s differs from itself: %v", r.ID, d)
		}
		count++
	}
	if count == 0 {
		t.Error("no result was read")
	}
}

func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte(`{"id":"a","events":[{"event":0,"type":"admit","uid":"u","admitted":true,"containers":[{"name":"c","hint":{"numa":[0],"preferred":true},"cpus":"0-1"}],"state":{"defaultCPUs":"2"}}],"millis":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := cases.DecodeResult(line)
		if err != nil {
			return
		}
		if d := Results(r, r); d != nil {
			t.Fatalf("differs from itself: %v", d)
		}
	})
}
