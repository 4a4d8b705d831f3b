package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/topology"
)

func samplePlacement() Placement {
	return Placement{
		Sequence: 7, Report: 41, Certainty: Exact, Guarantee: GuaranteeFull,
		Decision: placement.Decision{UID: "u-1", Containers: []placement.ContainerDecision{
			{Name: "init", Kind: placement.Init, Hint: placement.Hint{NUMA: 1, Preferred: true}, CPUs: topology.NewCPUSet(2, 3)},
			{Name: "side", Kind: placement.Sidecar, Hint: placement.Hint{Any: true}},
			{
				Name: "app", Hint: placement.Hint{NUMA: 3}, CPUs: topology.NewCPUSet(2, 3, 64, 65),
				Memory:  []placement.MemoryBlock{{Resource: "memory", NUMA: 3, Bytes: 1 << 30}},
				Devices: []placement.DeviceAllocation{{Resource: "nvidia.com/gpu", IDs: []string{"GPU-a", "GPU-b"}}},
			},
		}},
	}
}

const sampleText = `{"v":1,"seq":7,"report":41,"uid":"u-1","certainty":"exact","guarantee":"full","containers":[` +
	`{"name":"init","kind":"Init","hint":{"numa":"0","preferred":true},"cpus":"2-3"},` +
	`{"name":"side","kind":"Sidecar","hint":{"preferred":false}},` +
	`{"name":"app","hint":{"numa":"0-1","preferred":false},"cpus":"2-3,64-65","memory":[{"resource":"memory","numa":"0-1","bytes":1073741824}],` +
	`"devices":[{"resource":"nvidia.com/gpu","ids":["GPU-a","GPU-b"]}]}]}`

func TestPlacementText(t *testing.T) {
	p := samplePlacement()
	got, err := WritePlacement(&p)
	if err != nil {
		t.Fatal(err)
	}
	if got != sampleText {
		t.Errorf("encoded\n%s\nwant\n%s", got, sampleText)
	}
	back, err := parsePlacement("Pod ns/a", sampleText)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, p) {
		t.Errorf("decoded\n%+v\nwant\n%+v", back, p)
	}
}

func TestReadPlacement(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u-1"}}
	if _, found, err := ReadPlacement(pod); found || err != nil {
		t.Errorf("without annotation: found %v, error %v", found, err)
	}
	pod.Annotations = map[string]string{PlacementAnnotation: sampleText}
	if p, found, err := ReadPlacement(pod); !found || err != nil || p.Sequence != 7 {
		t.Errorf("got %+v, found %v, error %v", p, found, err)
	}
	pod.UID = "u-2"
	_, found, err := ReadPlacement(pod)
	var fe *FieldError
	if !found || !errors.As(err, &fe) || fe.Object != "Pod ns/a" || fe.Field != "metadata.annotations[berth.dev/placement].uid" || fe.Value != "u-1" {
		t.Errorf("copied placement: found %v, error %v", found, err)
	}
}

// TestForgedPlacement: each change of a valid annotation is refused, and the error names the field.
func TestForgedPlacement(t *testing.T) {
	for _, tc := range []struct{ name, old, new, want string }{
		{"version", `"v":1`, `"v":2`, ".v: \"2\""},
		{"no version", `"v":1,`, ``, ".v: \"0\""},
		{"sequence 0", `"seq":7`, `"seq":0`, ".seq"},
		{"negative sequence", `"seq":7`, `"seq":-1`, "seq"},
		{"report", `"report":41`, `"report":-41`, ".report"},
		{"no UID", `"uid":"u-1"`, `"uid":""`, ".uid"},
		{"certainty", `"exact"`, `"sure"`, ".certainty: \"sure\""},
		{"guarantee", `"full"`, `"complete"`, ".guarantee"},
		{"unknown field", `"v":1`, `"v":1,"w":1`, "unknown field"},
		{"repeated field", `"v":1`, `"v":1,"v":1`, "duplicate field"},
		{"case", `"v":1`, `"V":1`, "unknown field"},
		{"trailing", `]}]}]}`, `]}]}]}{}`, "after top-level value"},
		{"container name", `"name":"app"`, `"name":""`, ".containers[2].name"},
		{"container twice", `"name":"app"`, `"name":"side"`, ".containers[2].name: \"side\""},
		{"kind", `"Init"`, `"init"`, ".containers[0].kind"},
		{"hint", `"numa":"0-1","pref`, `"numa":"","pref`, ".containers[2].hint.numa"},
		{"NUMA 64", `"numa":"0","pref`, `"numa":"64","pref`, ".containers[0].hint.numa"},
		{"CPUs", `"2-3,64-65"`, `"2-3,99999"`, ".containers[2].cpus"},
		{"memory nodes", `"numa":"0-1","bytes"`, `"numa":"","bytes"`, ".memory[0].numa"},
		{"memory size", `1073741824`, `-1`, "bytes"},
		{"huge size", `1073741824`, `1e40`, "bytes"},
		{"resource", `"resource":"memory"`, `"resource":""`, ".memory[0].resource"},
		{"device twice", `"GPU-b"`, `"GPU-a"`, ".devices[0].ids[1]"},
		{"nothing", sampleText, ``, "unexpected end"},
		{"no JSON", sampleText, `CPUs 0-3`, "invalid character"},
		{"256 KiB", sampleText, strings.Repeat("x", 256<<10), "at most 131072 bytes, not 262144"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(sampleText, tc.old, tc.new, 1)
			if text == sampleText {
				t.Fatalf("%q is not in the sample", tc.old)
			}
			_, err := parsePlacement("Pod ns/a", text)
			var fe *FieldError
			if !errors.As(err, &fe) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got error %v, want a FieldError with %s", err, tc.want)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestWritePlacementRefusesNonsense(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*Placement)
	}{
		{"sequence 0", func(p *Placement) { p.Sequence = 0 }},
		{"no UID", func(p *Placement) { p.Decision.UID = "" }},
		{"empty affinity", func(p *Placement) { p.Decision.Containers[0].Hint.NUMA = 0 }},
		{"unsorted ids", func(p *Placement) { p.Decision.Containers[2].Devices[0].IDs = []string{"b", "a"} }},
		{"unknown certainty", func(p *Placement) { p.Certainty = 9 }},
	} {
		p := samplePlacement()
		tc.spoil(&p)
		if text, err := WritePlacement(&p); err == nil {
			t.Errorf("%s: encoded as %s", tc.name, text)
		}
	}
}

func TestLargestPlacementFits(t *testing.T) {
	p := Placement{Sequence: 1, Decision: placement.Decision{UID: strings.Repeat("u", 36)}}
	for i := range 100 {
		c := placement.ContainerDecision{Name: strings.Repeat("c", 60) + string(rune('a'+i/26)) + string(rune('a'+i%26)), Hint: placement.Hint{NUMA: 255}}
		for cpu := range topology.CPUID(20) {
			c.CPUs.Add(cpu*8 + topology.CPUID(i%8))
		}
		c.Memory = []placement.MemoryBlock{{Resource: "hugepages-1Gi", NUMA: 255, Bytes: 1 << 40}, {Resource: "memory", NUMA: 255, Bytes: 1 << 40}}
		d := placement.DeviceAllocation{Resource: "nvidia.com/gpu"}
		for j := range 10 {
			d.IDs = append(d.IDs, "GPU-0650a168-e770-3ea8-8ac3-8a1d4197"+string(rune('a'+j)))
		}
		c.Devices = []placement.DeviceAllocation{d}
		p.Decision.Containers = append(p.Decision.Containers, c)
	}
	if text, err := WritePlacement(&p); err != nil {
		t.Error(err)
	} else if len(text) < 50<<10 {
		t.Errorf("%d bytes: this test means to try a large one", len(text))
	}
}

func FuzzParsePlacement(f *testing.F) {
	f.Add(sampleText)
	f.Add(ownText)
	f.Add(`{"v":1,"seq":1,"uid":"u","certainty":"verdict","guarantee":"none","containers":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlacement("Pod ns/a", text)
		if err != nil {
			return
		}
		again, err := WritePlacement(&p)
		if err != nil {
			t.Fatalf("decoded but cannot be encoded: %v", err)
		}
		back, err := parsePlacement("Pod ns/a", again)
		if err != nil {
			t.Fatal(err)
		}
		if text2, err := WritePlacement(&back); err != nil || text2 != again {
			t.Fatalf("round trip: %q, error %v, want %q", text2, err, again)
		}
	})
}
