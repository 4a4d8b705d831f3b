// Package web serves the map, a web page that shows the nodes and NUMA nodes of a cluster. The data
// comes from a survey.Live, which watches the cluster. The package changes nothing in the cluster,
// and the page loads nothing from other servers. The folder page has the source of the page; the
// folder static has the files that are built from it.
package web
