// Package groups tests Berth's plugin in Kubernetes' own group cycle, with the gates
// GenericWorkload, GangScheduling and WorkloadAwarePreemption on. Gates are one set per process, so
// it is a package of its own.
package groups
