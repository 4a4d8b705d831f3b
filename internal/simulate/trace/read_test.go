package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
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
	if err != nil || !slices.Equal(nodes, []Node{{"b", 64000, 262144, 2, "P100"}, {"a", 32000, 1024, 0, ""}}) {
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

// TestBadLists: the error names the file, the line, the field, the value, and what would be right.
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
		{"thousandths of nothing", pod("p,1,1,0,500,,,0,1"), `line 3, gpu_milli: "500": want 0 where num_gpu is 0`},
		{"nothing of a GPU", pod("p,1,1,1,0,,,0,1"), `line 3, gpu_milli: "0": want 1 to 1000`},
		{"halves of two", pod("p,1,1,2,500,,,0,1"), `line 3, gpu_milli: "500": want 1000 where num_gpu is 2`},
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

// TestTooManyRows: a list that is too long is refused as soon as it is.
func TestTooManyRows(t *testing.T) {
	var b strings.Builder
	b.WriteString("sn,cpu_milli,memory_mib,gpu\n")
	for i := range MaxNodes + 10 {
		b.WriteString(strings.Repeat("n", 1+i%7) + strings.Repeat("0", i%3) + string(rune('a'+i%26)) + "-" + itoa(i) + ",1,1,0\n")
	}
	if _, err := ReadNodes(strings.NewReader(b.String()), "nodes"); err == nil || !strings.Contains(err.Error(), "want at most 100000") {
		t.Error(err)
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
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
			if p.Name == "" || p.MilliCPU < 0 || p.MiB < 0 || p.GPUs < 0 || p.AskedGPU() < 0 || p.GPUs > 1 && p.MilliGPU != Thousandths || p.Deleted < p.Created {
				t.Fatalf("%+v", p)
			}
		}
		NewDraw([]Node{{"a", 1000, 1000, 8, ""}}, pods, 1.3, 1)
		for _, o := range []Times{{}, {Load: 0.9, For: time.Hour}} {
			d, err := NewTimedDraw([]Node{{"a", 1000, 1000, 8, ""}}, pods, o, 1)
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

// TestDraw: pods arrive up to the ratio, each seed draws for itself, and the same seed the same.
func TestDraw(t *testing.T) {
	nodes, pods := []Node{{"b", 1, 1, 8, ""}, {"a", 1, 1, 8, ""}, {"c", 1, 1, 4, ""}}, []Pod{}
	for i := range 10 {
		pods = append(pods, Pod{Name: itoa(i), GPUs: 1, MilliGPU: 100 * int64(1+i)})
	}
	asked := func(d *Draw) (sum int64) {
		for _, i := range d.Arrivals {
			sum += pods[i].AskedGPU()
		}
		return sum
	}
	for _, ratio := range []float64{0, 0.1, 0.5, 1, 1.3} {
		d, again, other := NewDraw(nodes, pods, ratio, 7), NewDraw(nodes, pods, ratio, 7), NewDraw(nodes, pods, ratio, 8)
		if !slices.Equal(d.Arrivals, again.Arrivals) || !slices.Equal(d.Order, again.Order) {
			t.Errorf("ratio %v: the same seed draws something else", ratio)
		}
		if slices.Equal(d.Arrivals, other.Arrivals) {
			t.Errorf("ratio %v: another seed draws the same", ratio)
		}
		if got := asked(d); ratio == 0 && len(d.Arrivals) != len(pods) || ratio > 0 && (float64(got) > ratio*20000 || float64(got) < ratio*20000-1000) {
			t.Errorf("ratio %v: %d pods ask for %d", ratio, len(d.Arrivals), got)
		}
		if order := slices.Sorted(slices.Values(d.Order)); !slices.Equal(order, []int32{0, 1, 2}) {
			t.Errorf("order %v", d.Order)
		}
	}
	if d := NewDraw(nil, nil, 1.3, 1); len(d.Arrivals) != 0 {
		t.Errorf("%v arrive from an empty list", d.Arrivals)
	}
}

// TestTimedDraw: what pods ask for at a time comes near the load, in the order of time, and no pod
// runs longer than what passes before anything counts.
func TestTimedDraw(t *testing.T) {
	nodes, pods := []Node{{"a", 64000, 1, 8, ""}, {"b", 64000, 1, 8, ""}}, []Pod{}
	for i := range 10 {
		pods = append(pods, Pod{Name: itoa(i), GPUs: 1 + i%2, MilliGPU: 1000, Members: i % 3})
	}
	for _, timed := range []bool{false, true} {
		for i := range pods {
			pods[i].Timed, pods[i].Scheduled, pods[i].Deleted = timed, int64(i), 100+int64(i)*3000
		}
		o := Times{Load: 0.8, For: 4000 * time.Hour}
		d, err := NewTimedDraw(nodes, pods, o, 5)
		if err != nil {
			t.Fatal(err)
		}
		sum, last := 0.0, int64(0)
		for _, a := range d.Arrivals {
			p := &pods[a.Pod]
			sum += float64(a.Life) * float64(p.Count()) * float64(p.AskedGPU())
			if a.At < last || a.At >= d.To || a.Life < 1 || a.Life > d.From || timed && a.Life != p.Life() {
				t.Fatalf("%+v after %d, until %d", a, last, d.To)
			}
			last = a.At
		}
		if load := sum / float64(d.To) / 16000; load < 0.78 || load > 0.82 {
			t.Errorf("times of the list %t: the load is %v, want 0.8", timed, load)
		}
		again, _ := NewTimedDraw(nodes, pods, o, 5)
		other, _ := NewTimedDraw(nodes, pods, o, 6)
		if !slices.Equal(d.Arrivals, again.Arrivals) || slices.Equal(d.Arrivals, other.Arrivals) || !slices.Equal(d.Order, again.Order) {
			t.Error("each seed draws for itself, and the same seed the same: it is not so")
		}
	}
	own, err := NewTimedDraw(nodes, pods, Times{}, 5)
	if err != nil || len(own.Arrivals) != len(pods) || own.From != 0 || own.To != 27091 || own.Arrivals[2] != (Arrival{2, 0, 6098}) {
		t.Errorf("%+v, %v", own, err)
	}
	for _, c := range []struct {
		pods []Pod
		o    Times
		want string
	}{
		{pods, Times{Load: 10, For: 24 * 365 * time.Hour * 10}, "pods would arrive: want at most 500000"},
		{append(slices.Clone(pods), Pod{Name: "x"}), Times{}, `pod "x": it has no times`},
		{[]Pod{{Name: "x"}}, Times{Load: 1, For: time.Hour}, "ask for nothing"},
		{[]Pod{{Name: "x", MilliCPU: 1 << 40, Timed: true, Deleted: 1 << 30}}, Times{}, "CPU hours: want at most"},
	} {
		if _, err := NewTimedDraw(nodes, c.pods, c.o, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
