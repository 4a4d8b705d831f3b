package gangs

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAdmissionIsChecked: invalid values are refused by name.
func TestAdmissionIsChecked(t *testing.T) {
	for want, a := range map[string]Admission{
		"": {},
		`admission.gate: "open": want resources or none`:   {Gate: "open"},
		"admission.overcommitFactor: 0.5: want 1 to 1000":  {OvercommitFactor: 0.5},
		"admission.overcommitFactor: NaN: want 1 to 1000":  {OvercommitFactor: math.NaN()},
		"admission.keepFor: 25h0m0s: want at most 24h0m0s": {KeepFor: duration(25 * time.Hour)},
	} {
		a.FillIn()
		got := ""
		if err := a.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var a Admission
	if a.FillIn(); a.Gate != GateResources || a.OvercommitFactor != 1 || a.KeepFor.Duration != 5*time.Minute {
		t.Errorf("the defaults are %+v", a)
	}
}

func duration(d time.Duration) (out metav1.Duration) {
	out.Duration = d
	return out
}
