// Package under creates the scheduler of Kubernetes' own tests: kube-scheduler, or kube-scheduler
// with Berth's plugins as in berth-scheduler. `make scheduler-suites` copies the tests and makes
// them call this package instead of k8s.io/kubernetes/pkg/scheduler.
package under
