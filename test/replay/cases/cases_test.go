package cases

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// lines returns the lines of a packed file.
func lines(t *testing.T, name string) [][]byte {
	t.Helper()
	f, err := Open(filepath.Join("testdata", "recorded", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(f); err != nil {
		t.Fatal(err)
	}
	return bytes.SplitAfter(bytes.TrimRight(b.Bytes(), "\n"), []byte("\n"))
}

func TestRecordedCasesRoundTrip(t *testing.T) {
	for i, line := range lines(t, "cases.ndjson.gz") {
		c, err := DecodeCase(line)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if _, err := c.Machine.View(); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if _, err := c.Config.Placement(0); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if !strings.HasPrefix(c.ID, "start-") { // manually edited cases have their fields in another order
			sameLine(t, i, canonical(line), c)
		}
	}
}

func TestRecordedResultsRoundTrip(t *testing.T) {
	for i, line := range lines(t, "results.ndjson.gz") {
		r, err := DecodeResult(line)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		sameLine(t, i, line, r)
	}
}

// canonical writes quantities as the API server stores them: "6300117000" becomes "6300117k",
// "1000m" becomes "1".
func canonical(line []byte) []byte {
	return regexp.MustCompile(`"\d+(m|Ki|Mi|Gi)?"`).ReplaceAllFunc(line, func(q []byte) []byte {
		n := resource.MustParse(string(bytes.Trim(q, `"`)))
		return []byte(`"` + n.String() + `"`)
	})
}

func sameLine[T Case | Result](t *testing.T, i int, line []byte, v *T) {
	t.Helper()
	out, err := Encode(v)
	if err != nil {
		t.Fatalf("line %d: %v", i+1, err)
	}
	if !bytes.Equal(bytes.TrimSpace(line), bytes.TrimSpace(out)) {
		t.Fatalf("line %d is encoded differently:\n%s%s", i+1, line, out)
	}
}

const small = `{"id":"a","machine":{"nodes":[{"id":0,"memory":1024,"cores":[{"id":0,"socket":0,"threads":[0,1]}]}]},` +
	`"config":{"reservedCPU":"500m"},"devices":[{"resource":"x/y","preferred":"none","devices":[{"id":"d","numa":[0]}]}],` +
	`"events":[{"type":"admit","pod":{"metadata":{"uid":"u"},"spec":{"containers":[{"name":"c","resources":{}}]},"status":{}}},{"type":"remove","uid":"u"}]}`

func TestDecodeCaseRefusesAbsurdValues(t *testing.T) {
	if _, err := DecodeCase([]byte(small)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ old, new, want string }{
		{`"id":"a"`, `"id":""`, `id: "": want a name`},
		{`"id":"a"`, `"id":"a","ID":"b"`, `unknown field "ID"`},
		{`"id":"a"`, `"id":"a","id":"b"`, `duplicate field "id"`},
		{`{"id":0,"memory"`, `{"id":4000000000,"memory"`, "4000000000"},
		{`{"id":0,"memory"`, `{"id":-1,"memory"`, "-1"},
		{`"memory":1024`, `"memory":-5`, "-5"},
		{`"memory":1024`, `"memory":10000000000000000000`, `machine.nodes[0].memory: "10000000000000000000"`},
		{`"memory":1024`, `"memory":1,"hugepages":[{"sizeKB":1048576,"count":100000000000000}]`, "machine.nodes[0].hugepages[0]"},
		{`"threads":[0,1]`, `"threads":[0,0]`, `machine.nodes[0].cores[0].threads: "0": want every CPU once`},
		{`"threads":[0,1]`, `"threads":[5000]`, `"5000"`},
		{`"threads":[0,1]`, `"threads":[]`, "want a CPU"},
		{`"threads":[0,1]`, `"threads":[0],"speed":3`, `unknown field "machine.nodes[0].cores[0].speed"`},
		{`"reservedCPU":"500m"`, `"reservedCPU":"-1"`, `config.reservedCPU: "-1"`},
		{`"reservedCPU":"500m"`, `"reservedCPU":"many"`, "quantities must match"},
		{`"reservedCPU":"500m"`, `"cpuManagerPolice":"none"`, `unknown field "config.cpuManagerPolice"`},
		{`"preferred":"none"`, `"preferred":"random"`, `devices[0].preferred: "random": want none, sorted or nvidia`},
		{`"numa":[0]`, `"numa":[64]`, `devices[0].devices[0].numa: "64"`},
		{`"type":"remove"`, `"type":"delete"`, `events[1].type: "delete"`},
		{`"type":"remove","uid":"u"`, `"type":"remove"`, "events[1].uid"},
		{`"type":"remove","uid":"u"`, `"type":"devices"`, "events[1].pool"},
		{`"uid":"u"},"spec"`, `"uid":""},"spec"`, "events[0].pod.metadata.uid"},
		{`"name":"c"`, `"name":"c","colour":"red"`, `unknown field "events[0].pod.spec.containers[0].colour"`},
	} {
		_, err := DecodeCase([]byte(strings.Replace(small, tt.old, tt.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s -> %s: got error %v, want one with %q", tt.old, tt.new, err, tt.want)
		}
	}
}

func TestReadCasesNamesTheLine(t *testing.T) {
	var got error
	n := 0
	for c, err := range ReadCases(strings.NewReader(small + "\n\n" + `{"id":"b","machine":{"nodes":[]}}` + "\n" + small)) {
		if got = err; c != nil {
			n++
		}
	}
	var field *FieldError
	if n != 1 || !errors.As(got, &field) || field.Field != "machine.nodes" || !strings.HasPrefix(got.Error(), "line 3: ") {
		t.Fatalf("%d cases, error %v", n, got)
	}
}

func FuzzDecodeCase(f *testing.F) {
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := DecodeCase(line)
		if err != nil {
			return
		}
		if _, err := c.Machine.View(); err != nil {
			t.Fatalf("a checked machine has no view: %v", err)
		}
		for i := range c.Devices {
			if _, err := c.Devices[i].Placement(); err != nil {
				t.Fatal(err)
			}
		}
		out, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeCase(out)
		if err != nil {
			t.Fatalf("%s is not read back: %v", out, err)
		}
		if twice, _ := Encode(again); !bytes.Equal(out, twice) {
			t.Fatalf("not stable:\n%s%s", out, twice)
		}
	})
}
