// Package apiclient makes clients for Berth's kinds and for other projects' kinds that Berth reads.
package apiclient

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
)

// New returns a client for the group berth.dev.
func New(config *rest.Config) (*rest.RESTClient, error) {
	return For(config, v1alpha1.GroupVersion, v1alpha1.AddToScheme)
}

// Last returns the object of an informer's event. If the informer missed the deletion, Last returns
// the last known version of the object.
func Last(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}

// Coarse is a kind of object in which another program reports a node's free amounts by NUMA node.
// Some clusters do not serve the kind.
type Coarse struct {
	// Resource is the group, version and resource under which the API server serves the kind.
	Resource schema.GroupVersionResource
	// New returns an empty object.
	New func() runtime.Object

	add func(*runtime.Scheme) error
}

// CoarseKinds has all Coarse kinds. If several kinds report the same node, the kind that comes
// first in CoarseKinds counts.
var CoarseKinds = []Coarse{
	{nodeinfo.Numatopologies, func() runtime.Object { return new(nodeinfo.Numatopology) }, nodeinfo.AddToScheme},
	{nrt.NodeResourceTopologies, func() runtime.Object { return new(nrt.NodeResourceTopology) }, nrt.AddToScheme},
}

// Client returns a client for the kind.
func (c *Coarse) Client(config *rest.Config) (*rest.RESTClient, error) {
	return For(config, c.Resource.GroupVersion(), c.add)
}

// Koordinator returns a client for the group scheduling.koordinator.sh. Some clusters do not serve
// this group.
func Koordinator(config *rest.Config) (*rest.RESTClient, error) {
	return For(config, koordinator.GroupVersion, koordinator.AddToScheme)
}

// Core returns a copy of config for clients of Kubernetes' own kinds. API servers send these kinds
// as protobuf, which takes both sides a fraction of the time that JSON takes.
func Core(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}

// For returns a client for the kinds of one group and version, which the function add registers.
// The client uses JSON, because API servers do not serve custom resources as protobuf.
func For(config *rest.Config, version schema.GroupVersion, add func(*runtime.Scheme) error) (*rest.RESTClient, error) {
	known := runtime.NewScheme()
	if err := add(known); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(known, version)
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/apis", &version
	c.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(c)
}
