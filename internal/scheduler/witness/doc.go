// Package witness is berth-scheduler's shadow mode: it places nothing and writes nothing. It feeds
// the scheduler's own accounts of the nodes (package nodes) with the pods that other schedulers
// bind, and package shadow judges what these accounts expected of the kubelets.
package witness
