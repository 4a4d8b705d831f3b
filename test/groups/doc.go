// Package groups tests Berth's plugin in Kubernetes' own group cycle, with the gate GenericWorkload
// on. It is a separate package, because a process has only one set of gates.
package groups
