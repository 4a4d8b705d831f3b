package featuregates

import (
	"reflect"
	"testing"
)

func TestWrong(t *testing.T) {
	for _, c := range []struct {
		gate  string
		minor uint8
		want  string
	}{
		{"CPUManagerPolicyAlphaOptions", 33, ""}, {"CPUManagerPolicyAlphaOptions", 36, ""}, {"AllAlpha", 35, ""},
		{"AllAlpha", 37, "CompositePodGroup is enabled, but depends on features that are disabled: [GenericWorkload]"},
		{"TopologyManagerPolicyBetaOptions", 34, ""}, {"PodLevelResourceManagers", 36, ""}, {"ContextualLogging", 36, ""},
		{"PodLevelResourceManagers", 33, "unrecognized feature gate: PodLevelResourceManagers"},
		{"CPUManagr", 36, "unrecognized feature gate: CPUManagr (OpenShift's kubelet ignores it: give the kubelet's answer to /configz instead)"},
		{"DRAExtendedResorce", 36, `unrecognized feature gate: DRAExtendedResorce (did you mean "DRAExtendedResource"?)`},
	} {
		name, why := Wrong(map[string]bool{c.gate: true}, c.minor)
		if why != c.want || (name == "") != (c.want == "") {
			t.Errorf("%s in 1.%d: %q, %q, want %q", c.gate, c.minor, name, why, c.want)
		}
	}
}

// TestLocked: a locked gate can only be set to its locked value. Whether it is locked depends on
// the release.
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
		{"GitRepoVolumeDriver", false, 36, ""},
		{"GitRepoVolumeDriver", true, 36, "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false"},
		{"AllowOverwriteTerminationGracePeriodSeconds", true, 35, "cannot set feature gate AllowOverwriteTerminationGracePeriodSeconds to true, feature is locked to false"},
		{"DeclarativeValidationTakeover", true, 37, "cannot set feature gate DeclarativeValidationTakeover to true, feature is locked to false"},
		{"SystemdWatchdog", true, 36, ""}, {"ReloadKubeletClientCAFile", false, 37, ""},
		{"CPUManagerPolicyOptions", false, 38, "unrecognized feature gate: CPUManagerPolicyOptions"},
		{"CPUManagerPolicyOptions", false, 32, "unrecognized feature gate: CPUManagerPolicyOptions"},
	} {
		if _, why := Wrong(map[string]bool{c.gate: c.value}, c.minor); why != c.want {
			t.Errorf("%s=%t in 1.%d: %q, want %q", c.gate, c.value, c.minor, why, c.want)
		}
	}
}

// TestNeeds: a gate that is on requires other gates.
func TestNeeds(t *testing.T) {
	for _, c := range []struct {
		gates      map[string]bool
		minor      uint8
		blamed, of string
	}{
		{map[string]bool{"PodLevelResources": false}, 35, "", ""},
		{map[string]bool{"PodLevelResources": false}, 36, "PodLevelResources",
			"InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: [PodLevelResources]"},
		{map[string]bool{"PodLevelResources": false, "InPlacePodLevelResourcesVerticalScaling": false}, 36, "", ""},
		{map[string]bool{"PodLevelResources": false, "InPlacePodLevelResourcesVerticalScaling": false}, 37, "PodLevelResources",
			"PodLevelResourcesFixDefaulting is enabled, but depends on features that are disabled: [PodLevelResources]"},
		{map[string]bool{"AllBeta": false, "PodLevelResourceManagers": true}, 36, "PodLevelResourceManagers",
			"PodLevelResourceManagers is enabled, but depends on features that are disabled: [PodLevelResources]"},
		{map[string]bool{"AllBeta": false}, 37, "", ""},
	} {
		if name, why := Wrong(c.gates, c.minor); name != c.blamed || why != c.of {
			t.Errorf("%v in 1.%d: %q, %q, want %q, %q", c.gates, c.minor, name, why, c.blamed, c.of)
		}
	}
}

// TestTables: every line has the format of a kubelet's output.
func TestTables(t *testing.T) {
	all, err := readTables()
	if err != nil {
		t.Fatal(err)
	}
	for minor, gates := range all {
		for name, g := range gates {
			back, err := parse(g.String())
			if err != nil || !reflect.DeepEqual(back, g) || g.Name != name {
				t.Errorf("1.%d: %q reads as %+v, %v", minor, g, back, err)
			}
			for _, need := range g.Needs {
				if _, known := gates[need]; !known {
					t.Errorf("1.%d: %s needs %s, which there is not", minor, name, need)
				}
			}
		}
	}
	for _, line := range []string{"", "A", "A BETA", "A BETA maybe", "A BETA on loked", "A BETA on needs", "A BETA on locked B"} {
		if g, err := parse(line); err == nil {
			t.Errorf("%q reads as %+v", line, g)
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
