// Package nodestate reads nodes: it translates the API's objects into values for the ledger and the
// engine. Scheduler and command line read nodes only through it.
//
//   - Kind is a machine with a kubelet's configuration, compiled once for all nodes with equal
//     ones.
//   - Reading is a report: its kind, its mark (which report is newer), the assigned resources, and
//     everything that makes the node unusable, as one error type.
//   - Heartbeat is a sign of life of a node's agent, and SightingOf a pod that is bound to a node.
//
// The package is pure: it reads objects, and uses no client and no clock.
package nodestate
