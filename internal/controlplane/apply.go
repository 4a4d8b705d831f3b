package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the owner of fields that Apply writes.
const fieldManager = "berth-controlplane"

// Apply applies objects of any kind in their order, as the administrator, by server-side apply. It
// waits until each CustomResourceDefinition among them is established. A manifest may hold several
// YAML documents.
func (cp *ControlPlane) Apply(ctx context.Context, manifests ...[]byte) error {
	objs, err := decode(manifests)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cp.admin)
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for _, o := range objs {
		if err := cp.applyOne(ctx, dyn, mapper, o); err != nil {
			return fmt.Errorf("apply %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func decode(manifests [][]byte) ([]*unstructured.Unstructured, error) {
	var objs []*unstructured.Unstructured
	for _, m := range manifests {
		documents := utilyaml.NewYAMLToJSONDecoder(bytes.NewReader(m))
		for {
			o := &unstructured.Unstructured{}
			err := documents.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("manifest: %w", err)
			}
			switch {
			case len(o.Object) == 0: // the document has only comments
			case o.GetKind() == "" || o.GetName() == "":
				return nil, fmt.Errorf("manifest: kind %q, metadata.name %q: want both", o.GetKind(), o.GetName())
			default:
				objs = append(objs, o)
			}
		}
	}
	return objs, nil
}

func (cp *ControlPlane) applyOne(ctx context.Context, dyn dynamic.Interface, mapper meta.ResettableRESTMapper, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	var client dynamic.ResourceInterface = dyn.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = dyn.Resource(mapping.Resource).Namespace(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault))
	}
	if _, err := client.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return err
	}
	if gvk.GroupKind() != (schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}) {
		return nil
	}
	mapper.Reset()
	return cp.waitEstablished(ctx, o.GetName())
}

func (cp *ControlPlane) waitEstablished(ctx context.Context, name string) error {
	client, err := apiextensions.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range crd.Status.Conditions {
			if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
				return false, fmt.Errorf("names refused: %s", c.Message)
			}
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}
