package lab

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
	"github.com/berth-dev/berth/internal/simulate/trace"
)

// asking is a strategy whose scores are never cached, because each arriving pod changes them.
type asking struct{ simulate.Scorer }

func (a asking) Learn(s *simulate.Shape) bool {
	if l, learns := a.Scorer.(simulate.Learner); learns {
		l.Learn(s)
	}
	return true
}

// TestRemembering: with and without cached scores, each strategy gives the same result.
func TestRemembering(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for round, overlay := range append([]string{"", "", ""}, OverlayNames()...) {
		e := simulate.Experiment{Seeds: []int64{int64(round), 7}}
		for i := range 2 + rng.Intn(9) {
			e.Nodes = append(e.Nodes, trace.Node{Name: fmt.Sprint("n", i), MilliCPU: 32000 * int64(1+rng.Intn(4)), MiB: 65536, GPUs: 1 + rng.Intn(5), GPUModel: []string{"", "A", "B"}[rng.Intn(3)]})
		}
		for i := range 40 {
			p := trace.Pod{Name: fmt.Sprint("p", i), MilliCPU: 1000 * int64(1+rng.Intn(30)), MiB: 1024 * int64(rng.Intn(9))}
			if p.GPUs = rng.Intn(4); p.GPUs > 0 {
				p.MilliGPU = 1000
			}
			if p.GPUs == 1 && rng.Intn(2) == 0 {
				p.MilliGPU = 100 * int64(1+rng.Intn(9))
			}
			if p.GPUs > 0 && rng.Intn(4) == 0 {
				p.GPUModels = []string{"A"}
			}
			e.Pods = append(e.Pods, p)
		}
		if overlay != "" {
			o, err := ParseOverlay(overlay)
			if err != nil {
				t.Fatal(err)
			}
			e.Pods = simulate.Whole(e.Pods)
			if e.Ground, err = NewNUMA(e.Nodes, Overlays{Rest: &o}); err != nil {
				t.Fatal(err)
			}
		}
		e.Arrive = Arrive(e.Nodes, e.Pods, 1.3)
		for _, s := range Strategies() {
			if s.NUMA && overlay == "" || s.Name == "BerthProfile" { // BerthProfile uses more than its score
				continue
			}
			e.Strategies = []simulate.Strategy{s, s}
			e.Strategies[1].New = func(load []simulate.Typical) simulate.Scorer { return asking{s.New(load)} }
			runs, err := e.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := len(e.Seeds); !reflect.DeepEqual(runs[:n], runs[n:]) || runs[0].Pods.Served == 0 {
				t.Errorf("%s, %s: %+v, asking again %+v", overlay, s.Name, runs[0].Figures, runs[n].Figures)
			}
		}
	}
}

func TestStrategiesOf(t *testing.T) {
	if s, err := StrategiesOf("fgd", "Berth"); err != nil || len(s) != 2 || s[0].Name != "FGD" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := StrategiesOf("BestFitt"); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Error(err)
	}
	if n := len(Strategies()); n != 22 {
		t.Errorf("%d strategies: want 22", n)
	}
}

func TestSynthetic(t *testing.T) {
	for _, name := range SyntheticNames() {
		if pods, err := Synthetic(name, false); err != nil || len(pods) != 100 {
			t.Errorf("%s: %d pods, %v", name, len(pods), err)
		}
	}
	if _, err := Synthetic("telko", false); err == nil || !strings.Contains(err.Error(), "telco") {
		t.Error(err)
	}
}
