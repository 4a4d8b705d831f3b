// Package captures compares the machines that sysfs reads from captures with the output of hwloc's
// lstopo and util-linux' lscpu on the same machines.
//
// Captures come from the folder named by BERTH_SHARED (default ../shared beside the repository),
// and from the source packages hwloc and util-linux of Debian when they lie, unpacked, in
// .cache/debian. Without both, the tests are skipped. To fetch the packages:
//
//	test/captures/fetch.sh
package captures
