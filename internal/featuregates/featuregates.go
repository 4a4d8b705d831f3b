// Package featuregates has the feature gates of each kubelet release. A kubelet does not start if a
// configured gate is unknown or is locked to another value, or if a gate that is on depends on a
// gate that is off.
//
// The folder releases has the gates of each kubelet release; make gates writes it.
package featuregates

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/berth-dev/berth/internal/suggest"
)

// Gate is a feature gate of one release (k8s.io/component-base/featuregate.FeatureSpec).
type Gate struct {
	Name string
	// Stage is ALPHA, BETA, DEPRECATED, or GA.
	Stage string
	// On is the default.
	On bool
	// Locked means that only the default may be set.
	Locked bool
	// Needs are the gates that must be on if this gate is on, ascending.
	Needs []string
}

// ga is the word in the tables for the stage GA, which Kubernetes writes as an empty string.
const ga = "GA"

// String returns the gate's line in a table: its name, its stage, on or off, "locked" if it is
// locked, and the gates that it needs.
func (g Gate) String() string {
	words := []string{g.Name, g.Stage, "off"}
	if g.Stage == "" {
		words[1] = ga
	}
	if g.On {
		words[2] = "on"
	}
	if g.Locked {
		words = append(words, "locked")
	}
	if len(g.Needs) > 0 {
		words = append(append(words, "needs"), g.Needs...)
	}
	return strings.Join(words, " ")
}

// parse parses the result of String.
func parse(line string) (Gate, error) {
	words := strings.Fields(line)
	if len(words) < 3 || words[2] != "on" && words[2] != "off" {
		return Gate{}, fmt.Errorf("feature gate %q: want a name, a stage, and on or off", line)
	}
	g, rest := Gate{Name: words[0], Stage: words[1], On: words[2] == "on"}, words[3:]
	if len(rest) > 0 && rest[0] == "locked" {
		g.Locked, rest = true, rest[1:]
	}
	if len(rest) > 0 && (rest[0] != "needs" || len(rest) == 1) {
		return Gate{}, fmt.Errorf("feature gate %q: after %s, want nothing, \"locked\", \"needs GATE...\" or \"locked needs GATE...\"", line, words[2])
	}
	if len(rest) > 0 {
		g.Needs = rest[1:]
	}
	return g, nil
}

//go:embed releases/*.txt
var tables embed.FS

// releases returns all feature gates. The keys are the minor version of the Kubernetes release, and
// the name of the gate.
var releases = sync.OnceValue(func() map[uint8]map[string]Gate {
	all, _ := readTables()
	return all
})

// readTables reads the embedded tables. The error is about the first line that is not a gate.
func readTables() (map[uint8]map[string]Gate, error) {
	const dir = "releases"
	files, err := tables.ReadDir(dir)
	all := map[uint8]map[string]Gate{}
	for _, f := range files {
		minor, parseErr := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(f.Name(), "1."), ".txt"), 10, 8)
		text, readErr := tables.ReadFile(path.Join(dir, f.Name()))
		if parseErr != nil || readErr != nil {
			return nil, fmt.Errorf("%s: %w, %w", f.Name(), parseErr, readErr)
		}
		gates := map[string]Gate{}
		for line := range strings.Lines(string(text)) {
			g, lineErr := parse(line)
			if err == nil && lineErr != nil {
				err = fmt.Errorf("%s: %w", f.Name(), lineErr)
			}
			gates[g.Name] = g
		}
		all[uint8(minor)] = gates
	}
	return all, err
}

// Wrong returns a gate with which the kubelet of release 1.minor does not start, and the kubelet's
// message. It returns "" if there is no such gate. The first unknown or locked gate, by name, comes
// before gates that need another gate (lacking). If a name is unknown, the message also suggests a
// similar name, or explains what to do if the kubelet runs with it.
func Wrong(gates map[string]bool, minor uint8) (name, why string) {
	known := releases()[minor]
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		g, knows := known[name]
		if !knows {
			hint := suggest.DidYouMean(name, Names(minor))
			if hint == "" && !Known(name) {
				hint = " (OpenShift's kubelet ignores it: give the kubelet's answer to /configz instead)"
			}
			return name, "unrecognized feature gate: " + name + hint
		}
		if g.Locked && g.On != gates[name] {
			return name, fmt.Sprintf("cannot set feature gate %s to %t, feature is locked to %t", name, gates[name], g.On)
		}
	}
	return lacking(gates, known)
}

// lacking finds a gate that is on although a gate that it needs is off. It returns the name of the
// setting in gates that causes this: the setting of the needed gate, or otherwise of the gate that
// needs it, or otherwise AllAlpha or AllBeta.
func lacking(gates map[string]bool, known map[string]Gate) (name, why string) {
	for _, feature := range slices.Sorted(maps.Keys(known)) {
		if !enabled(known[feature], gates) {
			continue
		}
		off := slices.DeleteFunc(slices.Clone(known[feature].Needs), func(need string) bool { return enabled(known[need], gates) })
		if len(off) == 0 {
			continue
		}
		why := fmt.Sprintf("%s is enabled, but depends on features that are disabled: %v", feature, off)
		for _, name := range append(off, feature, allOf(known[off[0]]), allOf(known[feature])) {
			if _, set := gates[name]; set {
				return name, why
			}
		}
	}
	return "", ""
}

// enabled reports whether a gate is on. Its own setting decides. Without one, the setting for all
// gates of its stage decides, and otherwise the default (featureGate.unsafeSetFromMap of
// k8s.io/component-base/featuregate).
func enabled(g Gate, gates map[string]bool) bool {
	for _, name := range []string{g.Name, allOf(g)} {
		if on, set := gates[name]; set {
			return on
		}
	}
	return g.On
}

// allOf returns the gate that sets all gates of the stage of g; "" if there is none.
func allOf(g Gate) string {
	return map[string]string{"ALPHA": "AllAlpha", "BETA": "AllBeta"}[g.Stage]
}

// Known reports whether some release has the gate.
func Known(name string) bool {
	for _, gates := range releases() {
		if _, knows := gates[name]; knows {
			return true
		}
	}
	return false
}

// Names returns the names of the gates of release 1.minor, ascending.
func Names(minor uint8) []string { return slices.Sorted(maps.Keys(releases()[minor])) }
