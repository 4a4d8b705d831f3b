// Package under makes the scheduler of Kubernetes' own tests: kube-scheduler's, or the same with
// Berth as berth-scheduler makes it. `make scheduler-suites` copies the tests and has them call
// this package in place of k8s.io/kubernetes/pkg/scheduler.
package under
