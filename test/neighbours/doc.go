// Command neighbours runs files of Berth's neighbours on a real API server with hollow nodes,
// agents and Berth's scheduler, and compares what becomes of them with what becomes of them there:
//
//	neighbours -from=../shared/neighbours -controller=all
//
// The folder has Volcano's own example files and Jobs of its e2e tests (EXPECT.tsv says how each
// ends), its definitions, and its own vc-controller-manager. Jobs are run unchanged, twice: by that
// program with those definitions, and by berth-controller with Berth's. What else stands among the
// examples (CronJob, JobFlow, plain pods) is run by that program. Files in Koordinator's words come
// with this program, and run where Koordinator's definitions are installed. What the folder lacks
// is skipped, and said.
//
// The last line of the output is JSON. It also counts what Berth passes over in silence: kinds and
// fields of the neighbours' definitions (test/fields), and words on pods of each name that the
// scheduler serves, which the API server must warn about. The exit code is 1 when anything is, when
// an example did not run, or when a Job did not end as it ends with Volcano, except for the ones
// that docs/volcano.md names with a reason.
//
// Containers of some Jobs end by themselves, seconds after their start. Where the machine is busy
// one may end before the Job has all its pods: such a case is played once more, alone.
//
// make e2e-neighbours builds and runs it.
package main
