// Command neighbours runs files of Berth's neighbours, unchanged, on a real API server with hollow
// nodes, agents and Berth's scheduler, and compares what becomes of them with what becomes of them
// there:
//
//	neighbours -from=../shared/neighbours -controller=both
//
// The folder has Volcano's own example files and Jobs of its e2e tests (EXPECT.tsv says how each
// ends), its definitions, and its own vc-controller-manager. Jobs are run twice: by that program
// with those definitions, and by berth-controller with Berth's. What the folder lacks is skipped,
// and said.
//
// The last line of the output is JSON. The exit code is 1 when a Job did not end as it ends with
// Volcano, but for those that docs/volcano.md names with a reason.
//
// make e2e-neighbours builds and runs it.
package main
