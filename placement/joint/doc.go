// Package joint chooses CPUs, CPU shares, memory and devices for a container or a whole pod, on a
// node where Berth decides. The package chooses all resources of a request together, on the fewest
// NUMA nodes.
//
// A Model is a compiled machine, a Book has its assigned resources, and a Try works on a copy of a
// Book. Try.Place is exact within a budget (below). Place tries all sets of NUMA nodes, the
// smallest first, until a set has room for the whole request. Among sets of equal size it chooses
// the set that fulfils the most preferences, then the set whose nodes are closest, then the set
// with the least free CPU time (or the most, by Strategy), then the set with the lowest numbers.
//
// A request may ask for an exact number of NUMA nodes instead of the fewest. Each of these nodes
// then provides a part of the CPUs or, without CPUs, of the first amount. The parts are equal if
// there is room. A request may also list the sets of NUMA nodes that may provide its CPUs, for
// example the sets near devices that another program assigns. The CPUs then come from the fewest of
// the chosen nodes, while memory may come from all of them.
//
// Inside the set of nodes, Place chooses whole cores, one thread per core, or any CPUs. If
// requested, the CPUs use few level-3 caches, or are the only pinned CPUs on their cores or NUMA
// nodes. CPU shares and memory are amounts. Place splits them evenly over the nodes of the set, if
// each node has room.
//
// Devices are chosen together with the CPUs and the memory: on the set of nodes and, if requested,
// at the same PCI root complexes, below the same switches, with one virtual function per physical
// one, or with a number per NUMA node. Among possible choices Place prefers, in this order: more
// links between the chosen devices; more links inside sets of four, and then pairs, of the
// remaining devices; fewer places; places with the fewest remaining devices; NUMA nodes with the
// fewest remaining devices (or the most, by Strategy). Links count only for kinds with at most 12
// devices.
//
// Each call of Place has a budget of Steps. Real machines do not exceed it, but forged node reports
// can. When the steps run out, Place chooses without a search, and marks the result Cut. Place then
// drops preferences, and may use more NUMA nodes than necessary if the width is AnyWidth. Place
// never refuses because the steps ran out, with two exceptions: three or more kinds of devices that
// must be together, and CPUs that must be near resources of another program.
//
// No function does I/O, reads a clock or uses random numbers, so equal inputs give equal results. A
// Try and a Grant reuse their memory: after the first calls, Place allocates nothing. Place does
// not validate a Want; callers check Rules with Rules.Sane first.
package joint
