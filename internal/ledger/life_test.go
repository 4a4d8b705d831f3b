package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLivesKeepTheirLists: whatever happens to pods in any order, the lists agree with the stages,
// and a copy of the facts does not change with them.
func TestLivesKeepTheirLists(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		f := facts{pods: lives{byUID: map[string]*pod{}}}
		for i := range 200 {
			uid := fmt.Sprint(rng.IntN(8))
			p := f.pods.byUID[uid]
			before := f.fork()
			switch {
			case p == nil:
				f.pods.become(&pod{uid: uid, asked: asked{req: cpus(uid, 1)}}, reserved)
			case p.stage == reserved:
				f.pods.post(p, &Promise{})
			case p.stage == posted && rng.IntN(2) == 0:
				f.pods.doubtful(p, time.Unix(int64(i), 0))
			case rng.IntN(2) == 0:
				f.pods.takeBack(p)
			default:
				f.pods.leave(p)
			}
			for what, now := range map[string]*facts{"the facts": &f, "their copy": &before} {
				if err := now.checkStages(); err != nil {
					t.Fatalf("seed %d, step %d, %s: %v", seed, i, what, err)
				}
			}
			if was := before.pods.byUID[uid]; p == nil && was != nil || p != nil && (was == nil || was == p) {
				t.Fatalf("seed %d, step %d: the copy has %v of pod %v", seed, i, was, p)
			}
		}
	}
}
