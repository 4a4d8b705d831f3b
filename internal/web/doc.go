// Package web serves the map: one self-contained page that shows a cluster by node and NUMA node.
// The data comes from a survey that is kept up to date. The package writes nothing to the cluster.
// The folder page has the source of the page, and the folder static has the built files.
package web
