package scheduler

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-dev/berth/internal/apiclient"
	"github.com/berth-dev/berth/internal/nodestate"
	"github.com/berth-dev/berth/internal/wire"
)

// podsByNode is the name of the informer's index of pods by their nodes. The index is added when it
// is used for the first time.
const podsByNode = "berth.dev/node"

// onNodes finds Node objects, and the pods that are bound to them, in the caches of the scheduler's
// informers.
type onNodes struct {
	nodes  corev1listers.NodeLister
	pods   func() cache.Indexer
	logger klog.Logger
}

func newOnNodes(handle fwk.Handle, logger klog.Logger) *onNodes {
	core := handle.SharedInformerFactory().Core().V1()
	pods := core.Pods().Informer()
	return &onNodes{nodes: core.Nodes().Lister(), logger: logger, pods: sync.OnceValue(func() cache.Indexer {
		if pods.GetIndexer().GetIndexers()[podsByNode] == nil {
			err := pods.AddIndexers(cache.Indexers{podsByNode: func(obj any) ([]string, error) {
				if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
					return []string{pod.Spec.NodeName}, nil
				}
				return nil, nil
			}})
			if err != nil {
				logger.Error(err, "Cannot look up pods by their nodes")
			}
		}
		return pods.GetIndexer()
	})}
}

// node returns the Node object, or nil if there is none.
func (o *onNodes) node(name string) *corev1.Node {
	node, err := o.nodes.Get(name)
	if err != nil {
		return nil
	}
	return node
}

func (o *onNodes) exists(name string) bool { return o.node(name) != nil }

func (o *onNodes) bound(name string) []*corev1.Pod {
	found, err := o.pods().ByIndex(podsByNode, name)
	if err != nil {
		o.logger.Error(err, "Cannot look up pods by their nodes")
	}
	bound := make([]*corev1.Pod, len(found))
	for i := range found {
		bound[i] = found[i].(*corev1.Pod)
	}
	return bound
}

// beside returns what a report with only amounts (apiclient.CoarseKinds) lacks: the release of the
// node's kubelet, and the pods that are bound to the node.
func (o *onNodes) beside(name string) *wire.Beside {
	return nodestate.BesideOf(o.node(name), o.bound(name))
}

// watchNodes informs the feed, gangs and Reservations about changes of Nodes.
func (c *core) watchNodes(informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			name := obj.(*corev1.Node).Name
			c.feed.NodeSeen(name)
			c.gangs.Stir()
			c.reservations.NodeBack(name)
		},
		UpdateFunc: func(old, obj any) {
			was, now := old.(*corev1.Node), obj.(*corev1.Node)
			if was.Status.NodeInfo.KubeletVersion != now.Status.NodeInfo.KubeletVersion {
				c.feed.NodeSeen(now.Name)
			}
			if mayHelp(was, now) {
				c.gangs.Stir()
			}
			if was.UID != now.UID { // after a broken watch, a Node that was created again appears as an update
				c.reservations.NodeGone(was.Name)
				c.reservations.NodeBack(now.Name)
			}
		},
		DeleteFunc: func(obj any) {
			if node, ok := apiclient.Last(obj).(*corev1.Node); ok {
				c.reservations.NodeGone(node.Name)
				c.feed.NodeGone(node.Name)
			}
		},
	})
	return err
}

// mayHelp reports whether a change of a Node object may help a pod that waits.
func mayHelp(old, now *corev1.Node) bool {
	return old.Spec.Unschedulable != now.Spec.Unschedulable || !equality.Semantic.DeepEqual(old.Spec.Taints, now.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, now.Labels) || !equality.Semantic.DeepEqual(old.Status.Allocatable, now.Status.Allocatable)
}

// othersLate is the maximum time from the moment when the plugin sees a pod until the snapshot of a
// cycle contains the pod. The plugin and the snapshot get the pod from one watch, each through its
// own queue. So the snapshot of a cycle may lack a pod that was bound to a node shortly before the
// cycle began.
const othersLate = 2 * time.Second

// tooLate explains why the node has too few resources for the pod, or why a host port is taken. It
// returns "" if the pod fits. The check is necessary because other schedulers may have bound pods
// to the node, or pods there may have been resized, after the framework checked the node. tooLate
// counts resources as the kubelet does. It also counts the pods in written, whose Bindings the
// watch may not show yet.
func (o *onNodes) tooLate(pod *corev1.Pod, node string, written []*corev1.Pod) string {
	bound := o.bound(node)
	for _, posted := range written {
		if !slices.ContainsFunc(bound, func(b *corev1.Pod) bool { return b.UID == posted.UID }) {
			bound = append(bound, posted)
		}
	}
	bound = slices.DeleteFunc(bound, func(b *corev1.Pod) bool { return b.UID == pod.UID })
	room := nodestate.RoomOf(o.node(node), bound, nil)
	if s := room.Short(wire.ReadAmounts(pod)); s != nil {
		return "other pods have come to the node: " + s.Text()
	}
	if port := room.Taken(wire.PortsOf(pod)); port != "" {
		return "other pods have come to the node: port " + port + " of the node is taken"
	}
	return ""
}
