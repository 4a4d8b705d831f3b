// Package web serves the map: one self-contained page that shows a cluster by node and NUMA node,
// from a survey that is kept up to date. It writes nothing to the cluster. The source of the page
// is in the folder page; static has the built files.
package web
