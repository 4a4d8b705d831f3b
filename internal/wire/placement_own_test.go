package wire

import (
	"reflect"
	"strings"
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/placement/joint"
	"github.com/berth-dev/berth/topology"
)

const ownText = `{"v":1,"seq":1,"uid":"u-1","certainty":"exact","guarantee":"full","authority":"berth","enforcer":"koordlet","containers":[` +
	`{"name":"app","hint":{"numa":"1","preferred":true},"cpus":"8-9","memory":[{"resource":"memory","numa":"1","bytes":1024}],"exclusive":"core","bounds":["memory"]},` +
	`{"name":"log","hint":{"numa":"0-1","preferred":true},"shares":[{"numa":0,"milliCPU":100},{"numa":1,"milliCPU":200}],"bounds":["cpus"],"provided":[{"resource":"x/licence","place":"socket 0","amount":2}]}]}`

// TestOwnDecision: a decision of Berth is written with the Binding and read back.
func TestOwnDecision(t *testing.T) {
	want := Placement{Sequence: 1, Certainty: Exact, Guarantee: GuaranteeFull, Authority: placement.AuthorityBerth, Koordlet: true, Decision: placement.Decision{UID: "u-1", Containers: []placement.ContainerDecision{
		{Name: "app", Hint: placement.Hint{NUMA: 2, Preferred: true}, CPUs: topology.NewCPUSet(8, 9), Exclusive: joint.ExclusiveCore, Bounds: placement.BoundMemory,
			Memory: []placement.MemoryBlock{{Resource: "memory", NUMA: 2, Bytes: 1024}}},
		{Name: "log", Hint: placement.Hint{NUMA: 3, Preferred: true}, Bounds: placement.BoundCPUs,
			Shares:   []placement.CPUShare{{NUMA: 0, MilliCPU: 100}, {NUMA: 1, MilliCPU: 200}},
			Provided: []placement.Provided{{Resource: "x/licence", Place: "socket 0", Amount: 2}}},
	}}}
	if got, err := WritePlacement(&want); err != nil || got != ownText {
		t.Errorf("%v\n%s\nwant\n%s", err, got, ownText)
	}
	if got, err := parsePlacement("Pod ns/a", ownText); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
	// Readers of the first release accept no unknown fields.
	if got, err := WritePlacement(&Placement{Sequence: 1, Decision: placement.Decision{UID: "u-1"}}); err != nil || strings.Contains(got, "authority") {
		t.Errorf("for authority kubelet: %s, %v", got, err)
	}
	if rough := roughBytes(&want.Decision); rough < len(ownText) {
		t.Errorf("%d bytes estimated, %d written", rough, len(ownText))
	}
	for _, c := range []struct{ old, new, field string }{
		{`"berth"`, `"kubelet"`, "authority"}, {`"koordlet"`, `"agent"`, "enforcer"}, {`"authority":"berth",`, ``, "enforcer"},
		{`"core"`, `"package"`, "exclusive"}, {`["memory"]`, `["memory","memory"]`, "bounds[1]"}, {`["memory"]`, `["memory","cpus"]`, "bounds[1]"},
		{`["cpus"]`, `["gpus"]`, "bounds[0]"}, {`"numa":0,`, `"numa":1,`, "shares[1].numa"}, {`"numa":1,"milli`, `"numa":64,"milli`, "shares[1].numa"},
		{`"milliCPU":100`, `"milliCPU":0`, "shares[0].milliCPU"}, {`"milliCPU":100`, `"milliCPU":9999999999`, "shares[0].milliCPU"},
		{`"x/licence"`, `""`, "provided[0].resource"}, {`"socket 0"`, `""`, "provided[0].place"}, {`"amount":2`, `"amount":0`, "provided[0].amount"},
		{`"amount":2}`, `"amount":2},{"resource":"x/licence","place":"socket 0","amount":1}`, "provided[1].place"},
	} {
		_, err := parsePlacement("Pod ns/a", strings.Replace(ownText, c.old, c.new, 1))
		if err == nil || !strings.Contains(err.Error(), c.field+":") {
			t.Errorf("%s for %s: %v, want an error about %s", c.new, c.old, err, c.field)
		}
	}
}
