package topology

import "testing"

func TestRoughBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1023: "1023", 1024: "1Ki", 1536: "1.5Ki", 1 << 30: "1Gi", 1<<34 - 1<<20: "15.9Gi", 1<<60 + 1<<59: "1.5Ei", 1<<64 - 1: "15.9Ei"} {
		if got := RoughBytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
