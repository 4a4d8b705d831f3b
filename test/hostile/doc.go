// Command hostile runs a hostile tenant against a real API server with hollow nodes of both
// authorities, agents, berth-controller and two replicas of Berth's scheduler. It fails if a
// friendly load in another namespace is affected:
//
//	hostile -seed=7
//
// README.md describes the tenant's actions, the requirements and the excuses. The last line of the
// output is JSON; the exit code is 1 after a failure.
//
// make e2e-hostile builds and runs it; make e2e-hostile-proof puts known faults back, and each must
// be found.
package main
