// Package apiclient makes clients of Berth's own kinds.
package apiclient

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// New returns a client that knows the group berth.dev. It speaks JSON, as custom resources are
// served in nothing else, whatever the configuration says.
func New(config *rest.Config) (*rest.RESTClient, error) {
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(known, v1alpha1.GroupVersion)
	c := rest.CopyConfig(config)
	c.APIPath, c.GroupVersion = "/apis", &v1alpha1.GroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(known).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(c)
}
