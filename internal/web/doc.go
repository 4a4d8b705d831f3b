// Package web serves the map: one page that shows a cluster node by node and NUMA node by NUMA
// node, with everything in it that the page needs, over a survey that is kept up to date. It writes
// nothing to the cluster. The page itself is in the folder page; static holds what is built of it.
package web
