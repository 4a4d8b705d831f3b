// Package apiclient makes clients of kinds that are not Kubernetes' own: Berth's, and those of
// others that Berth reads.
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

// New returns a client that knows the group berth.dev. It speaks JSON, as custom resources are
// served in nothing else, whatever the configuration says.
func New(config *rest.Config) (*rest.RESTClient, error) {
	return For(config, v1alpha1.GroupVersion, v1alpha1.AddToScheme)
}

// Last returns the object of an informer's event. Where the informer missed the deletion, that is
// the last state it knew.
func Last(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}

// Coarse is a kind of report that tells amounts alone. Others write it, and a cluster need not
// serve it.
type Coarse struct {
	// Resource is under which it is served.
	Resource schema.GroupVersionResource
	// New returns an empty object.
	New func() runtime.Object

	add func(*runtime.Scheme) error
}

// CoarseKinds are all of them. Of the ones that report one node, the first counts.
var CoarseKinds = []Coarse{
	{nodeinfo.Numatopologies, func() runtime.Object { return new(nodeinfo.Numatopology) }, nodeinfo.AddToScheme},
	{nrt.NodeResourceTopologies, func() runtime.Object { return new(nrt.NodeResourceTopology) }, nrt.AddToScheme},
}

// Client returns a client that knows the kind.
func (c *Coarse) Client(config *rest.Config) (*rest.RESTClient, error) {
	return For(config, c.Resource.GroupVersion(), c.add)
}

// Koordinator returns a client that knows the group scheduling.koordinator.sh, which a cluster need
// not serve.
func Koordinator(config *rest.Config) (*rest.RESTClient, error) {
	return For(config, koordinator.GroupVersion, koordinator.AddToScheme)
}

// For returns a client that knows the kinds that add adds, of one group and version.
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
