package play

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/replay/cases"
)

func TestEndingsThatCannotBe(t *testing.T) {
	for what, endings := range map[string][]cases.Ending{
		`meanwhile[0].uid: "": want`:    {{}},
		`meanwhile[0].uid: "own": want`: {{UID: "own"}},
		`meanwhile[1].uid: "a": want`:   {{UID: "a"}, {UID: "a", Step: 3}},
		`meanwhile[0].step: -1: want`:   {{UID: "a", Step: -1}},
	} {
		if _, err := meanwhile("own", endings); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v: got %v, want %q", endings, err, what)
		}
	}
}
