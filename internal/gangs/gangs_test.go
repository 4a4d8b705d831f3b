package gangs

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// TestTogether: members of tasks that lack pods are chosen before older members of other tasks.
func TestTogether(t *testing.T) {
	task := func(name string) string { name, _, _ = strings.Cut(name, "-"); return name }
	line := []string{"worker-0", "worker-1", "worker-2", "master-3"}
	for _, c := range []struct {
		most  int
		tasks map[string]int
		want  []string
	}{
		{2, map[string]int{"master": 1}, []string{"worker-0", "master-3"}},
		{2, nil, line[:2]},
		{4, map[string]int{"master": 1}, line},
		{1, map[string]int{"master": 1, "worker": 1}, []string{"worker-0", "master-3"}},
	} {
		if got := Together(line, task, c.most, c.tasks); !slices.Equal(got, c.want) {
			t.Errorf("%d, %v: %v, want %v", c.most, c.tasks, got, c.want)
		}
	}
}

// TestTogetherIsEnough: if all waiting members would reach the minimum, the chosen ones do. No
// member is chosen if an older one of the same task could be chosen instead.
func TestTogetherIsEnough(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 3))
		spec := wire.Gang{Minimum: 1 + random.IntN(8), Tasks: map[string]int{}}
		for _, task := range []string{"a", "b"} {
			if n := random.IntN(4); n <= spec.Minimum && random.IntN(2) == 0 {
				spec.Tasks[task] = n
			}
		}
		var done, waiting, chosen Count
		for range random.IntN(3) {
			done.Add(string("abc"[random.IntN(3)]), 1)
		}
		line := make([]string, random.IntN(12))
		for i := range line {
			line[i] = string("abc"[random.IntN(3)])
			waiting.Add(line[i], 1)
		}
		left := Needed(&spec, &done)
		most := max(left.All, left.Tasks["a"]+left.Tasks["b"])
		got := Together(line, func(task string) string { return task }, most, left.Tasks)
		for _, task := range got {
			chosen.Add(task, 1)
		}
		if all, some := Lacks(&spec, &done, &waiting), Lacks(&spec, &done, &chosen); all == "" && some != "" {
			t.Errorf("seed %d: %v of %v: %s, and all would do", seed, got, line, some)
		}
		if len(got) > most {
			t.Errorf("seed %d: %d are chosen, at most %d are asked for", seed, len(got), most)
		}
	}
}

// TestCount: a task without pods has no entry.
func TestCount(t *testing.T) {
	var c Count
	c.Add("a", 2)
	c.Add("b", 1)
	c.Add("a", -2)
	if c.All != 1 || len(c.Tasks) != 1 || c.Tasks["b"] != 1 {
		t.Errorf("%+v", c)
	}
}
