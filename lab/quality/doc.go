// Quality measures the quality of the choice among nodes (README.md):
//
//	quality -from=../shared/realdata/traces/openb
//
// It repeats published results, compares strategies on nodes with NUMA nodes, and measures the
// distance of the default from the optimum of small instances.
package main
