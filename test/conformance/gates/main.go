// Command gates prints the feature gates of the kubelet release that it is linked with, one per
// line, in the format of internal/featuregates. The go.mod of the build selects the release
// (versions/README.md).
package main

import (
	"fmt"
	"os"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/controller-manager/pkg/features/register"
	_ "k8s.io/kubernetes/pkg/features"

	"github.com/berth-dev/berth/internal/featuregates"
)

func main() {
	if err := tell(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// late are functions that register the gates of cmd/kubelet/app and apiserver/pkg/server, in
// addition to the gates of the packages above.
var late = []func(featuregate.MutableVersionedFeatureGate) error{logsapi.AddFeatureGates}

func tell() error {
	gate := utilfeature.DefaultMutableFeatureGate
	for _, add := range late {
		if err := add(gate); err != nil {
			return err
		}
	}
	needs := needs(gate)
	var lines []string
	for name, spec := range gate.GetAll() {
		g := featuregates.Gate{Name: string(name), Stage: string(spec.PreRelease), On: spec.Default, Locked: spec.LockToDefault, Needs: needs[name]}
		lines = append(lines, g.String())
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}

// needs returns the gates on which a gate depends. Releases before 1.35 do not have this
// information.
func needs(gate any) map[featuregate.Feature][]string {
	out := map[featuregate.Feature][]string{}
	teller, tells := gate.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	})
	if !tells {
		return out
	}
	for name, others := range teller.Dependencies() {
		for _, other := range others {
			out[name] = append(out[name], string(other))
		}
		slices.Sort(out[name])
	}
	return out
}
