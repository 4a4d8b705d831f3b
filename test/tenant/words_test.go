package tenant

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// TestEveryKeyHasARightValue: the tenant has a correct value for every key that Berth or a dialect
// reads.
func TestEveryKeyHasARightValue(t *testing.T) {
	annotations, labels := wire.KeysRead()
	keys := slices.Concat(annotations, labels)
	for _, key := range keys {
		if len(right[key]) == 0 {
			t.Errorf("%s has no right value: add one to right", key)
		}
	}
	for key := range right {
		if !slices.Contains(keys, key) {
			t.Errorf("%s is a key that no program reads", key)
		}
	}
}

// TestValue: all kinds of values occur, with names inserted.
func TestValue(t *testing.T) {
	w, r := newWords(), rand.New(rand.NewPCG(1, 1))
	odds, rights, huge := 0, 0, 0
	for range 1000 {
		switch v := w.value(r, wire.AllocatedAnnotation, "n", "u", false); {
		case v == `{"name":"n","uid":"u"}`:
			rights++
		case slices.Contains(odd, v):
			odds++
		case len(v) >= 1024:
			huge++
		default:
			t.Fatalf("%q is none of them", v)
		}
	}
	if rights == 0 || odds == 0 || huge == 0 {
		t.Errorf("%d right, %d odd, %d huge", rights, odds, huge)
	}
}
