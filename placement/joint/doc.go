// Package joint chooses CPUs, CPU shares, memory and devices for a container or a whole pod on a
// node where Berth decides: all resources at once, on the fewest NUMA nodes.
//
// A Model is a compiled machine, a Book has its assigned resources, and a Try works on a copy of a
// Book. Try.Place is exact within a budget (below). It tries all sets of NUMA nodes, the smallest
// first, until one has room for the whole request. Among sets of equal size it chooses the set that
// fulfils the most preferences, then the set whose nodes are closest, then the fullest (or
// emptiest, by Strategy), then the lowest.
//
// A request may name a number of NUMA nodes instead of the fewest. Each of them then provides a
// part of the CPUs or of the other amounts. The parts are equal if there is room. A request may
// also list the allowed sets of NUMA nodes for its CPUs, because of devices that another program
// assigns. The CPUs then come from the fewest of the chosen nodes, while memory may come from all
// of them.
//
// CPUs are chosen inside the set of nodes: whole cores, one thread per core, or any CPUs. If
// requested, they use few level-3 caches, or are the only pinned CPUs on their cores or NUMA nodes.
// Shares and memory are amounts, and are split evenly over the nodes of the set.
//
// Devices are chosen together with the CPUs and the memory: on the set of nodes and, if requested,
// at the same PCI root complexes, below the same switches, with one virtual function per physical
// one, or with a number per NUMA node. Among possible choices it prefers, in this order: more links
// between the chosen devices; better linked sets of four, and pairs, among the remaining devices;
// fewer places; places with the fewest remaining devices; NUMA nodes with the fewest remaining
// devices (or the most, by Strategy). Links count for kinds of up to 12 devices.
//
// Each call of Place has a budget of Steps. Real machines do not exceed it, but forged node reports
// can. When the steps run out, Place chooses without a search, and marks the result Cut. It then
// drops preferences, and may use more NUMA nodes than necessary if the width does not matter. This
// never causes a refusal, except for three or more kinds of devices that must be together.
//
// All functions are pure, and allocate nothing after the first calls. The code that reads Rules
// validates them. An unknown value is never treated as another one.
package joint
