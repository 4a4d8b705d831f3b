// Package groups tests Berth's plugin in Kubernetes' own group cycle, with the gate
// GenericWorkload on. Gates are one set per process, so it is a package of its own.
package groups
