package query

import "testing"

// TestGroupsShareAnswers: nodes with the same answer are one group, even if each has its own
// advice. The advice then names the nodes.
func TestGroupsShareAnswers(t *testing.T) {
	ask := func(node, advice string) Answer {
		return Answer{Node: node, Answer: Refuses, Message: "too few CPUs", Advice: advice}
	}
	for name, c := range map[string]struct {
		answers []Answer
		want    string
	}{
		"none":      {[]Answer{ask("a", ""), ask("b", "")}, ""},
		"one":       {[]Answer{ask("a", "wait"), ask("b", "wait")}, "wait"},
		"of a node": {[]Answer{ask("a", "mend n-a of a"), ask("n-b", "mend n-b")}, "mend n-a of a (a); mend n-b (n-b)"},
		"named":     {[]Answer{ask("x1", "mend x1"), ask("x2", "mend x2")}, "mend NODE"},
		"amounts":   {[]Answer{ask("a", "ask for 3"), ask("b", "ask for 4"), ask("c", "ask for 3")}, "ask for 3 (a); ask for 4 (b)"},
		"many": {[]Answer{ask("a", "1"), ask("b", "2"), ask("c", "3"), ask("d", "4"), ask("e", "5")},
			"1 (a); 2 (b); 3 (c); 2 more"},
	} {
		got := groupsOf(c.answers)
		if len(got) != 1 || len(got[0].Nodes) != len(c.answers) || got[0].Advice != c.want {
			t.Errorf("%s: %+v, want one group with the advice %q", name, got, c.want)
		}
	}
}
