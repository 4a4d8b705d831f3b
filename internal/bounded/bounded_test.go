package bounded

import (
	"fmt"
	"strings"
	"testing"
)

func TestMap(t *testing.T) {
	m := New[int, string](3)
	for i := range 10 {
		m.Set(i, fmt.Sprint(i))
		if value, ok := m.Get(i); !ok || value != fmt.Sprint(i) || m.Len() != min(i+1, 3) {
			t.Fatalf("%d: %q, %t, %d in all", i, value, ok, m.Len())
		}
	}
	m.Set(9, "again") // replaces no other entry
	if value, _ := m.Get(9); value != "again" || m.Len() != 3 {
		t.Errorf("%q, %d in all", value, m.Len())
	}
	m.Delete(9)
	if _, ok := m.Get(9); ok || m.Len() != 2 {
		t.Errorf("it is still there: %t, %d in all", ok, m.Len())
	}
	var none Map[int, int]
	if none.Set(1, 1); none.Len() > 0 {
		t.Error("the zero Map holds something")
	}
}

// TestShared: only the owner with the most entries loses one.
func TestShared(t *testing.T) {
	m := Shared[string, int](4, func(key string) string { owner, _, _ := strings.Cut(key, "/"); return owner })
	m.Set("few/1", 1)
	for i := range 100 {
		m.Set(fmt.Sprint("many/", i), i)
	}
	if _, ok := m.Get("few/1"); !ok || m.Len() != 4 {
		t.Errorf("%t, %d in all", ok, m.Len())
	}
}
