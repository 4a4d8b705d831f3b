// Command upgrade replaces one release of Berth with another while pods start and end, on a real
// API server with hollow nodes:
//
//	upgrade -from .cache/last/v0.1.0/bin -to bin/this
//
// It upgrades on one cluster and downgrades on another. First it replaces the manifests and the
// scheduler, then the agents one after the other. So the new scheduler works with the last
// release's agents, and the last release's scheduler works with the new agents. No kubelet may
// reject a pod, and no NodeTopology may be deleted and created again. Every pod must get the
// promised resources, except if the scheduler itself finds that neither scheduler nor agent made a
// mistake (outcome contended). The last line of the output is JSON. The exit code is 1 if a check
// failed.
//
// make e2e-upgrade builds both releases and runs the command.
package main
