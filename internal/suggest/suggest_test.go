package suggest

import "testing"

func TestNearest(t *testing.T) {
	verbs := []string{"place", "explain", "nodes", "pods", "fit", "topology", "check", "simulate"}
	for word, want := range map[string]string{
		"topolgy": "topology", "plaec": "place", "explian": "explain", "node": "nodes", "Fit": "fit", "fti": "fit",
		"": "", "place": "", "zzz": "", "delete": "", "simulat": "simulate",
	} {
		if got := Nearest(word, verbs); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := DidYouMean("container", []string{"volumes", "containers"}); got != ` (did you mean "containers"?)` {
		t.Errorf("got %q", got)
	}
}

// FuzzDistance compares with the definition, and checks that the distance is symmetric.
func FuzzDistance(f *testing.F) {
	f.Add("abc", "acb")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > 7 || len(b) > 7 {
			return
		}
		if got, want := distance(a, b), slow(a, b); got != want || got != distance(b, a) {
			t.Errorf("%q, %q: %d, want %d, and the other way round %d", a, b, got, want, distance(b, a))
		}
	})
}

// slow is the recursive definition of the optimal string alignment distance.
func slow(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	la, lb := len(a)-1, len(b)-1
	d := min(slow(a[:la], b)+1, slow(a, b[:lb])+1, slow(a[:la], b[:lb])+differ(a[la], b[lb]))
	if la > 0 && lb > 0 && a[la] == b[lb-1] && a[la-1] == b[lb] {
		d = min(d, slow(a[:la-1], b[:lb-1])+1)
	}
	return d
}

// TestNearestByWords: if a name lacks one word of the right name, it is too far away by letters.
func TestNearestByWords(t *testing.T) {
	known := []string{"cpuManagerPolicy", "reservedSystemCPUs", "cpuManagerPolicyOptions", "reservedMemory", "reserved-cpus"}
	for word, want := range map[string]string{
		"reservedCpus": "reserved-cpus", "reservedSystemCPU": "reservedSystemCPUs", "systemReservedCpus": "reservedSystemCPUs",
		"managerPolicyOptions": "cpuManagerPolicyOptions", "managerPolicy": "cpuManagerPolicy", "manager": "", "reserved": "", "topologyPolicy": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
