package simulate

import "testing"

// TestKeepForgetsNobody: no pod waits at the end that some node would take, with the strategy's
// rule Keep. A pod that comes to a node can make room there for a waiting pod (clock.retry).
func TestKeepForgetsNobody(t *testing.T) {
	waiting, kept := 0, 0
	timedCases(t, func(*Strategy) bool { return false }, func(name string, k *timedCase) {
		if k.strategy.Keep == nil {
			return
		}
		for k.seed = range int64(20) {
			c, _ := k.play(t)
			var l Look
			for _, class := range c.queue.classes {
				for node := range k.nodes {
					waiting++
					if c.scores.score(node, class.shape) > refusing {
						t.Errorf("%s, seed %d: a pod waits that node %d takes", name, k.seed, node)
					} else if c.scores.open(node) && c.cluster.Look(node, &k.shapes[class.shape], &l) {
						kept++ // without the rule, it would be placed there
					}
				}
			}
		}
	})
	if waiting == 0 || kept == 0 {
		t.Errorf("%d refusals, %d only because of the rule: the test has seen nothing", waiting, kept)
	}
}
