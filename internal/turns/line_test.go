package turns

import (
	"slices"
	"testing"
)

// TestEach: a limited number of entries of a namespace is under way, while those of others
// continue. Data of completed entries is removed.
func TestEach(t *testing.T) {
	l := Line[int]{Each: 2}
	pop := func(want int) {
		t.Helper()
		if _, got, ok := l.Pop(); got != want || ok != (want > 0) {
			t.Fatalf("got %d, %t, want %d", got, ok, want)
		}
	}
	for i := range 5 {
		l.Push("a", 1+i)
	}
	l.Push("b", 9)
	for _, want := range []int{1, 9, 2, 0} {
		pop(want)
	}
	l.Done("a")
	pop(3)
	pop(0)
	if l.Drop("a", 3) || !l.Drop("a", 4) || l.Drop("c", 1) || l.Len() != 1 {
		t.Errorf("%d wait, want 5 alone", l.Len())
	}
	for _, namespace := range []string{"a", "b", "a"} {
		l.Done(namespace)
	}
	pop(5)
	l.Push("a", 6)
	if !l.Drop("a", 6) {
		t.Error("what waits is not there")
	}
	l.Done("a")
	if pop(0); len(l.lanes)+len(l.order)+l.Len() > 0 {
		t.Errorf("%v, %v are remembered", l.lanes, l.order)
	}
}

func TestSort(t *testing.T) {
	list := []string{"a1", "a2", "b1", "a3", "c1", "b2"}
	Sort(list, func(item string) byte { return item[0] })
	if want := []string{"a1", "b1", "c1", "a2", "b2", "a3"}; !slices.Equal(list, want) {
		t.Errorf("got %q, want %q", list, want)
	}
}
