// Package nodestate reads nodes: it translates the API's objects into values for the ledger and the
// engine. The scheduler and the command line read nodes only with this package.
//
//   - NodeKind is a machine with a kubelet's configuration. It is compiled once for all nodes with
//     equal machines and configurations.
//   - Reading is a report: its kind, its mark (which shows the newer of two reports), the assigned
//     resources, and the reason if the node is unusable.
//   - Heartbeat is a renewal of the Lease of a node's agent. Sighting is a pod that is bound to a
//     node.
//
// The package is pure: it reads objects, and uses no client and no clock.
package nodestate
