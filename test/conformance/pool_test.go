package conformance

import (
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// TestPoolOutlivesItsChildren: children echo, end after a reply, die of a line, or hang.
func TestPoolOutlivesItsChildren(t *testing.T) {
	script := `while read -r l; do case "$l" in die) exit 3;; hang) exec sleep 60;; last) echo "$l"; exit 0;; *) echo "$l";; esac; done`
	lines := []string{"a", "last", "b", "die", "c", "hang", "d", "last", "last", "e"}
	i := 0
	p := Pool{Command: func() *exec.Cmd { return exec.Command("/bin/sh", "-c", script) }, Workers: 2, Renew: 2, Silence: 10 * time.Second}
	got := map[int]string{}
	err := p.Run(func() []byte {
		if i == len(lines) {
			return nil
		}
		i++
		return []byte(lines[i-1])
	}, func(a Answer) bool {
		got[a.Index] = string(a.Reply)
		if a.Err != nil {
			got[a.Index] = "error"
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range lines {
		want := l
		if l == "die" || l == "hang" {
			want = "error"
		}
		if got[i] != want {
			t.Errorf("line %d: got %q, want %q", i, got[i], want)
		}
	}
	stopped := 0
	err = p.Run(func() []byte { return []byte("x") }, func(Answer) bool { stopped++; return stopped < 3 })
	if err != nil || stopped != 3 {
		t.Error(fmt.Errorf("%d answers, error %v", stopped, err))
	}
}
