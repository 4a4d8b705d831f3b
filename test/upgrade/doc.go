// Command upgrade replaces one release of Berth by another while pods come and go, on a real API
// server with hollow nodes:
//
//	upgrade -from .cache/last/v0.1.0/bin -to bin/this
//
// It does that in both directions, each on a cluster of its own: first the manifests and the
// scheduler are replaced, later the agents one after the other. So this scheduler works with the
// last release's agents, and the last release's scheduler with these agents. Nothing may be refused
// by a kubelet, and every NodeTopology stays the object that it was. Nothing may be placed
// otherwise than promised, unless the scheduler finds out by itself that it was nobody's mistake
// (outcome contended). The last line of the output is JSON; the exit code is 1 when something was
// not as it must be.
//
// make e2e-upgrade builds both and runs it.
package main
