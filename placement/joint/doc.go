// Package joint decides where CPUs, CPU shares and memory of a container, or of a whole pod, lie on
// a node whose scheduler chooses: all resources at once, on the fewest NUMA nodes.
//
// A Model is a machine, compiled once; a Book says what is handed out of it; a Try works on a copy
// of a Book. Try.Place is exact. It looks at every set of NUMA nodes of each width, narrowest
// first, until one has room for everything that is asked, and so finds the narrowest there is. Of
// sets as narrow it takes the one that keeps most preferences, then the one whose nodes lie closest
// together, then the fullest (or emptiest, by Strategy), then the lowest.
//
// Sets of CPUs are chosen inside the set of nodes: whole cores, one thread a core, or as they come;
// from as few level-3 caches as asked; beside nobody on a core or on a NUMA node, if asked. Shares
// and memory are amounts, and are split evenly over the nodes of the set.
//
// Everything is pure and, once warm, allocates nothing. Rules are validated by their readers; a
// value that does not exist is never taken for another one.
package joint
