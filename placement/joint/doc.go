// Package joint decides where CPUs, CPU shares, memory and devices of a container, or of a whole
// pod, lie on a node whose scheduler chooses: all resources at once, on the fewest NUMA nodes.
//
// A Model is a machine, compiled once; a Book says what is handed out of it; a Try works on a copy
// of a Book. Try.Place is exact within a budget (below). It looks at every set of NUMA nodes of
// each width, narrowest first, until one has room for everything that is asked, and so finds the
// narrowest there is. Of sets as narrow it takes the one that keeps most preferences, then the one
// whose nodes lie closest together, then the fullest (or emptiest, by Strategy), then the lowest.
//
// A number of NUMA nodes may be wanted instead of the fewest. Each of them then gives some of the
// CPUs, evenly as far as there is room, or of an amount.
//
// Sets of CPUs are chosen inside the set of nodes: whole cores, one thread a core, or as they come;
// from as few level-3 caches as asked; beside nobody on a core or on a NUMA node, if asked. Shares
// and memory are amounts, and are split evenly over the nodes of the set.
//
// Devices are chosen together with the CPUs and the memory: on the set of nodes, at the same PCI
// root complexes or below the same switches if asked, one virtual function of each physical one if
// asked, so many on each NUMA node if asked. Of choices that do as well, those with more links
// inside go first, then the ones that leave sets of four and pairs that are well linked, then those
// at fewer places, then those at places with the least left, then those on NUMA nodes with the
// least left (or the most, by Strategy). Links count for kinds of up to 12 devices.
//
// A question has a budget of Steps. Who builds machines does not reach it; who makes them up does.
// When it is used up the answer is a place without a search, marked Cut: preferences are then given
// up, and the NUMA nodes may be more than needed where the width does not matter. Free devices are
// not refused for that, with one exception: three kinds or more that must lie together.
//
// Everything is pure and, once warm, allocates nothing. Rules are validated by their readers; a
// value that does not exist is never taken for another one.
package joint
