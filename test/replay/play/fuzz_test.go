package play_test

import (
	"testing"

	"github.com/berth-dev/berth/placement"
	"github.com/berth-dev/berth/test/replay/cases"
	"github.com/berth-dev/berth/test/replay/play"
)

const small = `{"id":"small","machine":{"nodes":[{"id":0,"memory":8589934592,"hugepages":[{"sizeKB":1048576,"count":2}],"distances":[10,20],"cores":[{"id":0,"socket":0,"threads":[0,4],"l3":0},{"id":1,"socket":0,"threads":[1,5],"l3":0}]},` +
	`{"id":1,"memory":8589934592,"hugepages":[{"sizeKB":1048576,"count":2}],"distances":[20,10],"cores":[{"id":2,"socket":1,"threads":[2,6],"l3":1},{"id":3,"socket":1,"threads":[3,7],"l3":1}]}]},` +
	`"config":{"cpuManagerPolicy":"static","cpuManagerPolicyOptions":{"full-pcpus-only":"true"},"reservedCPU":"1","memoryManagerPolicy":"Static","reservedMemory":[{"numaNode":0,"limits":{"memory":"1Gi"}}],` +
	`"topologyManagerPolicy":"best-effort","topologyManagerScope":"container","topologyManagerPolicyOptions":{"prefer-closest-numa-nodes":"true"}},` +
	`"devices":[{"resource":"x.y/z","preferred":"none","devices":[{"id":"a","numa":[0]},{"id":"b","numa":[1]},{"id":"c","numa":null,"unhealthy":true}]}],` +
	`"events":[{"type":"admit","pod":{"metadata":{"uid":"a"},"spec":{"initContainers":[{"name":"i","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}],"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"2Gi","hugepages-1Gi":"1Gi","x.y/z":"1"}}}]}}},` +
	`{"type":"start","uid":"a"},{"type":"devices","pool":{"resource":"x.y/z","preferred":"sorted","devices":[{"id":"b","numa":[0]}]}},{"type":"restart"},{"type":"remove","uid":"a"}]}`

// FuzzRun: every valid case has a result, with one entry per event unless the kubelet dies, and a
// second run gives the same result.
func FuzzRun(f *testing.F) {
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := cases.DecodeCase(line)
		if err != nil {
			return
		}
		r, err := play.Run(c, placement.V136)
		if err != nil {
			return
		}
		if n := len(r.Events); r.StartupError == "" && n != len(c.Events) && (n == 0 || r.Events[n-1].Panic == "") {
			t.Fatalf("%d of %d events", n, len(c.Events))
		}
		again, err := play.Run(c, placement.V136)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := cases.Encode(r)
		two, _ := cases.Encode(again)
		if string(one) != string(two) {
			t.Fatalf("%s\n%s", one, two)
		}
	})
}

// TestReleases: each release answers, and only known differences between releases occur.
func TestReleases(t *testing.T) {
	c, err := cases.DecodeCase([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	for v := placement.V133; v <= placement.V137; v++ {
		r, err := play.Run(c, v)
		if err != nil || r.StartupError != "" || len(r.Events) != 5 {
			t.Errorf("1.%d: %+v, %v", v, r, err)
		}
	}
	if r, err := play.Run(c, 99); err != nil || r.StartupError == "" || !play.Declined(c, 99) || play.Declined(c, 0) {
		t.Errorf("an unknown release: %+v, %v", r, err)
	}
}
