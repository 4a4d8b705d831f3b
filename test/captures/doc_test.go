// Package captures compares the machines that sysfs reads from captures with the output of hwloc's
// lstopo and util-linux' lscpu on the same machines.
//
// Captures come from the folder named by BERTH_SHARED (default ../shared beside the repository),
// and from Debian's source packages of hwloc and util-linux, if they are unpacked in .cache/debian.
// The tests are skipped if both folders are missing. To fetch the packages:
//
//	test/captures/fetch.sh
package captures
