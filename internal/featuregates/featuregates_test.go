package featuregates

import "testing"

func TestWrong(t *testing.T) {
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
		name, why := Wrong(map[string]bool{c.gate: true, "AllBeta": false}, c.minor)
		if why != c.want || (name == "") != (c.want == "") {
			t.Errorf("%s in 1.%d: %q, %q, want %q", c.gate, c.minor, name, why, c.want)
		}
	}
}

// TestLocked: a gate may be set to what it is locked to, and to nothing else. Whether it is locked
// depends on the release.
func TestLocked(t *testing.T) {
	for _, c := range []struct {
		gate  string
		value bool
		minor uint8
		want  string
	}{
		{"CPUManagerPolicyOptions", false, 36, "cannot set feature gate CPUManagerPolicyOptions to false, feature is locked to true"},
		{"CPUManagerPolicyOptions", true, 36, ""},
		{"InPlacePodVerticalScaling", false, 34, ""},
		{"InPlacePodVerticalScaling", false, 35, "cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true"},
		{"CPUManagerPolicyAlphaOptions", false, 36, ""},
		{"CPUManagerPolicyOptions", false, 38, "unrecognized feature gate: CPUManagerPolicyOptions"},
		{"CPUManagerPolicyOptions", false, 32, "unrecognized feature gate: CPUManagerPolicyOptions"},
	} {
		if _, why := Wrong(map[string]bool{c.gate: c.value}, c.minor); why != c.want {
			t.Errorf("%s=%t in 1.%d: %q, want %q", c.gate, c.value, c.minor, why, c.want)
		}
	}
	for name, word := range locked {
		for i := range word {
			if minor := uint8(firstMinor + i); word[i] != '-' && !knows(name, minor) {
				t.Errorf("%s is locked in 1.%d, which does not know it", name, minor)
			}
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
