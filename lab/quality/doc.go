// Quality measures how good the choice among nodes is (README.md):
//
//	quality -from=../shared/realdata/traces/openb
//
// It repeats what was published, compares strategies on nodes with NUMA nodes, and measures how far
// the default is from the optimum of small instances.
package main
