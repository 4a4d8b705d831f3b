// Package joint chooses CPUs, CPU shares, memory and devices for a container or a whole pod on a
// node where Berth decides: all resources at once, on the fewest NUMA nodes.
//
// A Model is a compiled machine, a Book has its assigned resources, and a Try works on a copy of a
// Book. Try.Place is exact within a budget (below). It tries all sets of NUMA nodes, narrowest
// first, until one has room for the whole request. Among equally narrow sets it chooses the one
// that fulfils most preferences, then the one whose nodes are closest, then the fullest (or
// emptiest, by Strategy), then the lowest.
//
// A request may name a number of NUMA nodes instead of the fewest. Each of them then provides a
// part of the CPUs or of the other amounts. The parts are equal if there is room. A request may
// also list the allowed sets of NUMA nodes for its CPUs, because of devices that another program
// assigns. The CPUs then come from the fewest of the chosen nodes, while memory may come from all
// of them.
//
// CPUs are chosen inside the set of nodes: as whole cores, one thread per core, or any; from as few
// level-3 caches as requested; alone on their cores or NUMA nodes, if requested. Shares and memory
// are amounts, and are split evenly over the nodes of the set.
//
// Devices are chosen together with the CPUs and the memory: on the set of nodes and, if requested,
// at the same PCI root complexes, below the same switches, with one virtual function per physical
// one, or with a number per NUMA node. Among equal choices the order is: more links between the
// chosen devices; better linked sets of four and pairs left over; fewer places; places with the
// least left; NUMA nodes with the least left (or the most, by Strategy). Links count for kinds of
// up to 12 devices.
//
// A question has a budget of Steps. Real machines do not reach it, invented reports can. When it is
// used up, the answer is a place without a search, marked Cut: preferences are dropped, and more
// NUMA nodes than necessary may be used if the width does not matter. A request is not refused
// because of this, except for three or more kinds of devices that must be together.
//
// Everything is pure, and allocates nothing after the first calls. The readers of Rules validate
// them; an unknown value is never treated as another one.
package joint
