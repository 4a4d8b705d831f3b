package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
)

// podsByNode is the index of pods by their nodes. It is there once a report has been seen that
// tells amounts alone.
const podsByNode = "berth.dev/node"

// besideOf says what is known about a node besides a report that tells amounts alone: its kubelet's
// release, and the pods that are bound to it.
func besideOf(handle fwk.Handle, logger klog.Logger) func(node string) *wire.Beside {
	core := handle.SharedInformerFactory().Core().V1()
	nodes, pods := core.Nodes().Lister(), core.Pods().Informer()
	index := sync.OnceValue(func() error {
		if pods.GetIndexer().GetIndexers()[podsByNode] != nil {
			return nil
		}
		return pods.AddIndexers(cache.Indexers{podsByNode: func(obj any) ([]string, error) {
			if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
				return []string{pod.Spec.NodeName}, nil
			}
			return nil, nil
		}})
	})
	return func(name string) *wire.Beside {
		if err := index(); err != nil {
			logger.Error(err, "Pods cannot be found by their nodes")
			return new(wire.Beside)
		}
		node, err := nodes.Get(name)
		if err != nil {
			node = nil
		}
		found, err := pods.GetIndexer().ByIndex(podsByNode, name)
		if err != nil {
			logger.Error(err, "Pods cannot be found by their nodes")
		}
		bound := make([]*corev1.Pod, len(found))
		for i := range found {
			bound[i] = found[i].(*corev1.Pod)
		}
		return nodestate.BesideOf(node, bound)
	}
}
