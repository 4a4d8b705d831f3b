package ledger

import "testing"

func TestRoom(t *testing.T) {
	k := newKubelet(t, model(t, twoSockets, pinning))
	n := open(t, k)
	for size, want := range map[int64]int{1: 10, 2: 7, 4: 3, 7: 2, 8: 1, 9: 0} { // 7 and 8 CPUs are free
		if got := n.View().Room(cand(cpus("x", size)), 10); got != want {
			t.Errorf("room for %d pods of %d CPUs, want %d", got, size, want)
		}
	}
	check(t, n)
	if got := new(Ledger).Open(nil).View().Room(cand(cpus("x", 1)), 10); got != 0 {
		t.Errorf("room for %d pods without a report", got)
	}
}
