// Command neighbours runs files of other projects (neighbours) on a real API server with hollow
// nodes, agents and Berth's scheduler, and compares the results with those of the projects' own
// systems:
//
//	neighbours -from=../shared/neighbours -controller=all
//
// The folder has Volcano's example files, Jobs of its e2e tests with their results (EXPECT.tsv),
// its definitions, and its vc-controller-manager. Jobs run unchanged, twice: with that controller
// and Volcano's definitions, and with berth-controller and Berth's. The other examples (CronJob,
// JobFlow, plain pods) run with Volcano's controller. Files for Koordinator are part of this
// program, and run with Koordinator's definitions. Cases whose files are missing are skipped and
// reported.
//
// The last line of the output is JSON. It also counts kinds and fields of the other projects'
// definitions that Berth ignores without a warning (test/fields). The exit code is 1 if there are
// any, if an example did not run, or if a Job did not end as with Volcano, except Jobs that
// docs/volcano.md names with a reason.
//
// Containers of some Jobs end by themselves, seconds after their start. On a busy machine a
// container may end before the Job has all its pods. Such a case runs once more, alone.
//
// make e2e-neighbours builds and runs it.
package main
