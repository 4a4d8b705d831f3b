// Package scheduler is Berth's plugin for kube-scheduler: extension points, and what feeds them. It holds no
// placement logic: package placement knows what a kubelet decides, package ledger which states a node may be in.
//
// The way of a pod: PreFilter translates it once; Filter asks every node's ledger for a verdict; Reserve decides and
// takes the pod in; Bind decides again when its turn has come and writes Binding and decision in one request, one
// request at a time per node; the node's next report acknowledges it.
//
// Nodes whose reports are missing, stale, contradictory or not understood are refused for pods that could be pinned,
// with a reason. Pods that could not be pinned anywhere pass untouched.
package scheduler
