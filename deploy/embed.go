// Package deploy has the manifests of an installation, so that the demo and the tests install the
// same files as users.
package deploy

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:embed crds/*.yaml rbac/*.yaml policies/*.yaml jobs/*.yaml exporters/*.yaml shadow/*.yaml
var manifests embed.FS

// Folder returns the files of a folder. "crds" has the custom resource definitions of NodeTopology
// and of other projects' kinds, for clusters where these are not installed. "rbac" has the
// namespace, the service accounts, and the roles of agents, schedulers and viewers. "policies" has
// the ValidatingAdmissionPolicies with the rules that roles cannot express, and the policy that
// warns about annotations without effect. "jobs" has the roles and policies of the controller of
// batch Jobs. "exporters" has the policy that lets only agents write reports of amounts, for
// clusters without other exporters. "shadow" has the roles of shadow mode.
func Folder(name string) fs.FS {
	if _, err := fs.Stat(manifests, name); err != nil {
		panic("deploy: " + err.Error()) // name is a constant
	}
	f, _ := fs.Sub(manifests, name)
	return f
}

// JobManifests returns the objects that berth-controller needs in addition to Manifests, in an
// order in which they can be applied.
func JobManifests() [][]byte {
	return read(append(slices.Clone(optional), "jobs/rbac.yaml", "jobs/policies.yaml", "jobs/controller-writes-for-jobs.yaml", "jobs/annotated-pods.yaml",
		"jobs/unserved-kinds.yaml"))
}

// ShadowManifests returns the objects that agents and shadow mode need, in an order in which they
// can be applied. They include no policy and no rights to place pods.
func ShadowManifests() [][]byte {
	return read([]string{"crds/berth.dev_nodetopologies.yaml", "rbac/namespace.yaml", "rbac/agent.yaml", "rbac/viewer.yaml", "shadow/rbac.yaml"})
}

// ServingNames adapts the manifests to a scheduler with these schedulerNames. The policy about
// Volcano's annotation then checks the pods with these names. If a name belongs to the scheduler of
// another project, the policy ignored-annotations.berth.dev also checks the pods with that name.
// The chart does the same with the names of its profiles.
func ServingNames(manifests [][]byte, names ...string) [][]byte {
	ours := []string{"", "default-scheduler", "volcano"}
	for _, name := range names {
		if !slices.Contains(ours, name) {
			ours = append(ours, name)
		}
	}
	in := func(names []string) string { return "in ['" + strings.Join(names, "', '") + "']" }
	replace := strings.NewReplacer("!(n in [])", "!(n "+in(names)+")", "in ['', 'default-scheduler', 'volcano', 'berth']", in(ours))
	out := make([][]byte, len(manifests))
	for i, m := range manifests {
		out[i] = []byte(replace.Replace(string(m)))
	}
	return out
}

// optional are the definitions of Volcano's kinds. Only JobManifests includes them.
var optional = []string{
	"crds/batch.volcano.sh_jobs.yaml", "crds/nodeinfo.volcano.sh_numatopologies.yaml", "crds/scheduling.volcano.sh_podgroups.yaml",
}

// Manifests returns every file that Berth needs, in an order in which they can be applied.
func Manifests() [][]byte {
	var names []string
	for _, pattern := range []string{"crds/*.yaml", "rbac/namespace.yaml", "rbac/*.yaml", "policies/*.yaml"} {
		found, _ := fs.Glob(manifests, pattern) // the patterns are well formed
		names = append(names, found...)
	}
	return read(slices.DeleteFunc(names, func(name string) bool { return slices.Contains(optional, name) }))
}

func read(names []string) (out [][]byte) {
	for _, name := range names {
		data, err := manifests.ReadFile(name)
		if err != nil {
			panic("deploy: " + err.Error()) // only for a name that was not found here
		}
		out = append(out, data)
	}
	return out
}
