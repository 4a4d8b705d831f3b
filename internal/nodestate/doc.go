// Package nodestate is the one reading of a node: what the API says about it becomes values that
// the ledger and the engine take. Scheduler and command line read nodes through it and in no other
// way.
//
//   - Kind is a machine with a kubelet's configuration, compiled once for all nodes that have it.
//   - Reading is a report: its kind, its mark (which report is newer), what has been handed out,
//     and all that makes the node unusable, as one error type.
//   - Heartbeat is a sign of life of a node's agent, and SightingOf a pod that is bound to a node.
//
// The package is pure: it reads objects that it is given, and knows no client and no clock.
package nodestate
