// Command hostile lets a tenant who means harm loose on a real API server with hollow nodes of
// both authorities, agents, berth-controller and two replicas of Berth's scheduler, and demands
// that a friendly load in another namespace notices nothing of it:
//
//	hostile -seed=7
//
// README.md says what the tenant does, what is demanded and what is excused. The last line
// of the output is JSON; the exit code is 1 when something was not as it must be.
//
// make e2e-hostile builds and runs it; make e2e-hostile-proof puts known faults back, and demands
// that each is found.
package main
