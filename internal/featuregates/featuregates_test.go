package featuregates

import "testing"

func TestUnknown(t *testing.T) {
	for _, c := range []struct {
		gate  string
		minor uint8
		want  string
	}{
		{"CPUManagerPolicyAlphaOptions", 33, ""}, {"CPUManagerPolicyAlphaOptions", 36, ""}, {"AllAlpha", 37, ""},
		{"TopologyManagerPolicyBetaOptions", 34, ""}, {"PodLevelResourceManagers", 36, ""}, {"ContextualLogging", 36, ""},
		{"PodLevelResourceManagers", 33, "unrecognized feature gate: PodLevelResourceManagers"},
		{"CPUManagr", 36, "unrecognized feature gate: CPUManagr"},
		{"DRAExtendedResorce", 36, `unrecognized feature gate: DRAExtendedResorce (did you mean "DRAExtendedResource"?)`},
	} {
		name, why := Unknown(map[string]bool{c.gate: true, "AllBeta": false}, c.minor)
		if why != c.want || (name == "") != (c.want == "") {
			t.Errorf("%s in 1.%d: %q, %q, want %q", c.gate, c.minor, name, why, c.want)
		}
	}
}

func TestEveryReleaseHasGates(t *testing.T) {
	for minor := uint8(33); minor <= 37; minor++ {
		if n := len(Names(minor)); n < 100 {
			t.Errorf("1.%d: only %d gates", minor, n)
		}
	}
}
