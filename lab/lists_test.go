package lab

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/simulate/trace"
)

const (
	someNodes = "sn,cpu_milli,memory_mib,gpu,model\nb,64000,262144,2,P100\na,32000,1024,0,\n"
	somePods  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n" +
		"x,4000,1024,1,250,P100|A10,LS,5,7\ny,1000,1024,2,1000,,LS,0,9\nz,1000,1024,0,0,,BE,,\n"
)

func packed(t *testing.T, text string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestRead(t *testing.T) {
	nodes, err := ReadNodes(packed(t, someNodes), "nodes.csv.gz")
	if err != nil || !slices.Equal(nodes, []trace.Node{{Name: "b", MilliCPU: 64000, MiB: 262144, GPUs: 2, GPUModel: "P100"}, {Name: "a", MilliCPU: 32000, MiB: 1024}}) {
		t.Errorf("%+v, %v", nodes, err)
	}
	pods, err := ReadPods(strings.NewReader("\ufeff"+somePods), "pods.csv")
	if err != nil || len(pods) != 3 {
		t.Fatalf("%+v, %v", pods, err)
	}
	x, z := pods[0], pods[2]
	if x.MilliGPU != 250 || !slices.Equal(x.GPUModels, []string{"A10", "P100"}) || !x.Timed || x.Created != 5 || x.Deleted != 7 || z.Timed {
		t.Errorf("%+v, %+v", x, z)
	}
}

// TestBadLists: the error names the file, the line, the field, the value, and a correct value.
func TestBadLists(t *testing.T) {
	header, _, _ := strings.Cut(somePods, "\n")
	pod := func(row string) string { return header + "\nok,1,1,0,0,,,0,1\n" + row + "\n" }
	scheduled := func(cells string) string {
		return "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time,members\np,1,1,0,0," + cells + "\n"
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", `pods: "nothing": want comma-separated values`},
		{"no such column", "name,cpu_milli\n", `pods, line 1: "name,cpu_milli": want a column memory_mib`},
		{"a short row", pod("p,1,1"), `pods, line 3: "wrong number of fields": want`},
		{"words", pod("p,many,1,0,0,,,0,1"), `pods, line 3, cpu_milli: "many": want a whole number from 0`},
		{"negative", pod("p,1,-5,0,0,,,0,1"), `line 3, memory_mib: "-5": want`},
		{"a negative time", pod("p,1,1,0,0,,,-1,1"), `line 3, creation_time: "-1": want`},
		{"gone before it came", pod("p,1,1,0,0,,,9,8"), `line 3, deletion_time: "8": want a time from creation_time on, 9`},
		{"a node before it came", scheduled("5,8,4,1"), `line 2, scheduled_time: "4": want a time from creation_time to deletion_time, 5 to 8`},
		{"a node after it went", scheduled("5,8,9,1"), `line 2, scheduled_time: "9": want`},
		{"a gang of nobody", scheduled("5,8,6,0"), `line 2, members: "0": want a whole number from 1 to 1024`},
		{"no name", pod(",1,1,0,0,,,0,1"), `line 3, name: "": want a name, each once`},
		{"a name twice", pod("ok,1,1,0,0,,,0,1"), `line 3, name: "ok": want a name, each once`},
		{"thousandths of nothing", pod("p,1,1,0,500,,,0,1"), `line 3, gpu_milli: "500": want 0, because num_gpu is 0`},
		{"nothing of a GPU", pod("p,1,1,1,0,,,0,1"), `line 3, gpu_milli: "0": want 1 to 1000`},
		{"halves of two", pod("p,1,1,2,500,,,0,1"), `line 3, gpu_milli: "500": want 1000, because num_gpu is 2`},
		{"too many GPUs", pod("p,1,1,100,1000,,,0,1"), `line 3, num_gpu: "100": want a whole number from 0 to 64`},
		{"half a packed file", packed(t, somePods).String()[:30], `pods: "unexpected EOF": want`},
		{"a quote", pod(`p"q,1,1,0,0,,,0,1`), `pods, line 3: `},
	} {
		_, err := ReadPods(strings.NewReader(c.text), "pods")
		var typed *InputError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &typed) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := ReadNodes(strings.NewReader(someNodes+"c,0,1,0,\n"), "nodes"); err == nil || !strings.Contains(err.Error(), "line 4, cpu_milli") {
		t.Error(err)
	}
}

// TestTooManyRows: reading stops with an error at the first row too many.
func TestTooManyRows(t *testing.T) {
	var b strings.Builder
	b.WriteString("sn,cpu_milli,memory_mib,gpu\n")
	for i := range trace.MaxNodes + 10 {
		b.WriteString(strings.Repeat("n", 1+i%7) + strings.Repeat("0", i%3) + string(rune('a'+i%26)) + "-" + strconv.Itoa(i) + ",1,1,0\n")
	}
	if _, err := ReadNodes(strings.NewReader(b.String()), "nodes"); err == nil || !strings.Contains(err.Error(), "want at most 100000") {
		t.Error(err)
	}
}

func FuzzReadPods(f *testing.F) {
	f.Add([]byte(somePods))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := ReadPods(bytes.NewReader(data), "pods")
		if err != nil {
			return
		}
		for i := range pods {
			p := &pods[i]
			if p.Name == "" || p.MilliCPU < 0 || p.MiB < 0 || p.GPUs < 0 || p.AskedGPU() < 0 || p.GPUs > 1 && p.MilliGPU != trace.Thousandths || p.Deleted < p.Created {
				t.Fatalf("%+v", p)
			}
		}
		nodes := []trace.Node{{Name: "a", MilliCPU: 1000, MiB: 1000, GPUs: 8}}
		trace.NewDraw(nodes, pods, 1, Arrive(nodes, pods, 1.3))
		for _, o := range []*trace.Times{{}, Load(nodes, pods, 0.9, time.Hour)} {
			d, err := trace.NewTimedDraw(nodes, pods, *o, 1)
			for i := 1; err == nil && i < len(d.Arrivals); i++ {
				if a := d.Arrivals[i]; a.At < d.Arrivals[i-1].At || a.Life < 1 {
					t.Fatalf("%+v", a)
				}
			}
		}
	})
}

func FuzzReadNodes(f *testing.F) {
	f.Add([]byte(someNodes))
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := ReadNodes(bytes.NewReader(data), "nodes")
		for i := range nodes {
			if n := &nodes[i]; err == nil && (n.Name == "" || n.MilliCPU < 1 || n.MiB < 1 || n.GPUs < 0) {
				t.Fatalf("%+v", n)
			}
		}
	})
}
