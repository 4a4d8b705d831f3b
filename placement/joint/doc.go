// Package joint chooses CPUs, CPU shares, memory and devices for a container or a whole pod, on a
// node where Berth decides. The package chooses all resources of a request together, on the fewest
// NUMA nodes.
//
// A Model is a compiled machine, a Book records its assigned resources, and a Try places requests
// on a copy of a Book. Try.Place finds the best place, unless its budget runs out (below). Place
// tries all sets of NUMA nodes, the smallest first, until a set has room for the whole request.
// Among sets of equal size it chooses the set that keeps the most preferences (Rules), then the set
// whose NUMA nodes are closest to each other, then the set with the least free CPU time (or the
// most, by Strategy), then the set with the lowest mask.
//
// A request may ask for an exact number of NUMA nodes instead of the fewest. Each of these NUMA
// nodes then provides a part of the CPUs or, without CPUs, of the first amount. The parts are as
// equal as the rules and the free resources allow. A request may also list the sets of NUMA nodes
// that may provide its CPUs, for example the sets near devices that another program assigns. The
// CPUs then come from as few of the chosen NUMA nodes as possible, while memory may come from all
// of them.
//
// Inside the set of NUMA nodes, Place chooses whole cores, one thread per core, or any CPUs. If
// requested, the CPUs use few level-3 caches, or are the only pinned CPUs on their cores or NUMA
// nodes. CPU shares and memory are amounts. Place splits them evenly over the NUMA nodes of the
// set, if each has room.
//
// Devices are chosen together with the CPUs and the memory, on the same set of NUMA nodes. A
// request may ask for devices that are together at PCI root complexes or below switches, for at
// most one virtual function of each physical function, or for a number of devices on each NUMA node
// (Want.PerNode). Among possible choices Place prefers, in this order: more links between the
// chosen devices; more links inside sets of four, and then pairs, of the remaining devices; fewer
// switches and root complexes; those with the fewest remaining devices; NUMA nodes with the fewest
// remaining devices (or the most, by Strategy). The first three of these count before the distances
// between NUMA nodes, and all of them before the free CPU time. Links count only for kinds with at
// most 12 devices.
//
// Each call of Place has a budget of Steps. Real machines do not use it up, but the machines in
// forged node reports can. When the steps run out, Place chooses without a search, and sets
// Grant.Cut. Place then drops preferences, and may use more NUMA nodes than necessary if the width
// is AnyWidth. Place never refuses because the steps ran out, with two exceptions: three or more
// kinds of devices that must be together, and CPUs that must be near resources of another program.
//
// No function does I/O, reads a clock or uses random numbers, so equal inputs give equal results. A
// Try and a Grant reuse their memory: after the first calls, Place allocates nothing. Place does
// not validate a Want; callers check Rules with Rules.Sane first.
package joint
