// Package captures compares what sysfs reads from captures of real machines with what other
// programs saw of the same machines: hwloc's lstopo and util-linux' lscpu.
//
// Captures come from the folder named by BERTH_SHARED (default ../shared beside the repository),
// and from the source packages hwloc and util-linux of Debian when they lie, unpacked, in
// .cache/debian. Where neither is there, the tests skip and say so. To fetch the packages:
//
//	test/captures/fetch.sh
package captures
