package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/strict"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
)

// head is the part of an object that identifies it.
type head struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

// group returns the API group, or "" for the core group.
func (h *head) group() string {
	group, _, named := strings.Cut(h.APIVersion, "/")
	if !named {
		return ""
	}
	return group
}

// base returns the name from which the names of the object's pods are made. Instead of the letters
// that the API server adds to generateName, it has nothing.
func (h *head) base() string {
	return cmp.Or(h.Name, strings.TrimSuffix(h.GenerateName, "-"))
}

// object returns kind, namespace and name in the form that errors use.
func (h *head) object() string {
	name := cmp.Or(h.Name, h.GenerateName)
	if h.Namespace != "" {
		name = h.Namespace + "/" + name
	}
	return strings.TrimSpace(h.Kind + " " + name)
}

// document reads one object. If the object is an item of a typed list, listed is the type of the
// items, because such items may omit their type.
func (r *reader) document(doc []byte, listed metav1.TypeMeta) error {
	if len(doc) == 0 {
		return nil
	}
	h, err := headOf(doc)
	if err != nil {
		return err
	}
	if h.Kind == "" && listed.Kind != "" {
		h.TypeMeta = listed
	}
	k, known := kinds[kindName{h.group(), h.Kind}]
	switch {
	case h.Kind == "":
		return &wire.FieldError{Object: "object " + cmp.Or(h.Name, "without a name"), Field: "kind",
			Want: "Pod, a workload with a pod template, or List"}
	case strings.HasSuffix(h.Kind, "List"):
		return r.list(doc, h)
	case known && k.apiVersion != "" && h.APIVersion != k.apiVersion:
		return &wire.FieldError{Object: h.object(), Field: "apiVersion", Value: h.APIVersion, Want: k.apiVersion}
	case h.APIVersion == resourcev1.SchemeGroupVersion.String() && h.Kind == "ResourceClaimTemplate" && !r.seen(h):
		return r.claim(h, doc)
	case h.APIVersion == nodev1.SchemeGroupVersion.String() && h.Kind == "RuntimeClass" && !r.seen(h):
		return r.class(h, doc)
	case !known:
		return r.skip(h)
	case r.seen(h):
		return nil
	}
	return r.add(h, k, doc)
}

func (r *reader) claim(h *head, doc []byte) error {
	if len(r.claims) == MaxPods {
		return &wire.FieldError{Object: h.object(), Field: "metadata.name", Value: h.Name, Want: fmt.Sprintf("at most %d ResourceClaimTemplates", MaxPods)}
	}
	var t resourcev1.ResourceClaimTemplate
	if err := (&objectReader{h, doc, r}).into(&t); err != nil {
		return err
	}
	r.claims = append(r.claims, t)
	return nil
}

// headOf reads the type and name of the object, even if other fields are wrong.
func headOf(doc []byte) (*head, error) {
	h := new(head)
	var loose map[string]any
	if err := yaml.Unmarshal(doc, &loose); err != nil {
		return nil, cmp.Or(strict.Unmarshal("object", doc, new(map[string]any)), err) // a clearer message for the same error
	}
	h.Kind, _ = loose["kind"].(string)
	h.APIVersion, _ = loose["apiVersion"].(string)
	meta, _ := loose["metadata"].(map[string]any)
	h.Name, _ = meta["name"].(string)
	h.GenerateName, _ = meta["generateName"].(string)
	h.Namespace, _ = meta["namespace"].(string)
	uid, _ := meta["uid"].(string)
	h.UID = types.UID(uid)
	h.OwnerReferences = ownersIn(meta)
	return h, nil
}

// ownersIn returns the owner that controls the object, if there is one.
func ownersIn(meta map[string]any) []metav1.OwnerReference {
	all, _ := meta["ownerReferences"].([]any)
	for _, one := range all {
		data, err := json.Marshal(one)
		var ref metav1.OwnerReference
		if err == nil && json.Unmarshal(data, &ref) == nil && ref.Controller != nil && *ref.Controller {
			return []metav1.OwnerReference{ref}
		}
	}
	return nil
}

// builtIn reports whether the group may be one of the groups that are built into the API server.
// The group of a custom resource always has a domain.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains(ownGroups, group)
}

// ownGroups are the built-in groups whose names contain a domain.
var ownGroups = strings.Fields(`admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io authentication.k8s.io authorization.k8s.io
	certificates.k8s.io coordination.k8s.io discovery.k8s.io events.k8s.io flowcontrol.apiserver.k8s.io internal.apiserver.k8s.io
	networking.k8s.io node.k8s.io rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io storagemigration.k8s.io`)

// skip ignores an object of a kind that this package does not read. It returns an error if a kind
// with this name has pods but belongs to another built-in group, or if the kind looks like a typing
// error. It always ignores a Node: the kind resembles Pod, but many exports contain nodes.
func (r *reader) skip(h *head) error {
	var names, versions []string
	for name, k := range kinds {
		if builtIn(name.group) {
			names = append(names, name.kind)
		}
		if name.kind == h.Kind && builtIn(name.group) {
			versions = append(versions, k.apiVersion)
		}
	}
	slices.Sort(names)
	own := !strings.Contains(h.group(), ".")
	if own && len(versions) > 0 {
		return &wire.FieldError{Object: h.object(), Field: "apiVersion", Value: h.APIVersion, Want: strings.Join(versions, " or ")}
	}
	if near := suggest.DidYouMean(h.Kind, names); near != "" && own && h.Kind != "Node" {
		return &wire.FieldError{Object: h.object(), Field: "kind", Value: h.Kind, Want: strings.Join(names, ", ") + " or List" + near}
	}
	if builtIn(h.group()) {
		r.skipped[h.Kind]++
	} else {
		r.unread[h.Kind+" of "+h.group()]++
	}
	return nil
}

// maxItemErrors limits the number of items of a list that one error names.
const maxItemErrors = 10

func (r *reader) list(doc []byte, h *head) error {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := yaml.Unmarshal(doc, &list); err != nil {
		return fmt.Errorf("%s: %w", h.object(), err)
	}
	base := strings.TrimSuffix(h.Kind, "List")
	listed := metav1.TypeMeta{Kind: base, APIVersion: h.APIVersion}
	if _, known := kinds[kindName{h.group(), base}]; !known && base != "" {
		r.skipped[h.Kind]++
		return nil
	}
	var errs []error
	for i, item := range list.Items {
		if err := r.document(item, listed); err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
	}
	if more := len(errs) - maxItemErrors; more > 0 {
		errs = append(errs[:maxItemErrors], fmt.Errorf("and %d more items", more))
	}
	return errors.Join(errs...)
}

func (r *reader) add(h *head, k kind, doc []byte) error {
	parts, err := k.read(&objectReader{h, doc, r})
	if err != nil {
		return err
	}
	o := object{head: *h, pod: h.Kind == "Pod"}
	for i := range parts {
		p := &parts[i]
		replicas := 1
		if p.count != nil {
			replicas = int(*p.count)
		}
		if replicas < 0 || o.pods+replicas > MaxPods {
			want := fmt.Sprintf("0 to %d pods", MaxPods-o.pods)
			if o.pods > 0 {
				want += fmt.Sprintf(", because an object may have at most %d pods, and its other fields already ask for %d", MaxPods, o.pods)
			}
			return &wire.FieldError{Object: h.object(), Field: cmp.Or(p.counted, "spec.replicas"), Value: fmt.Sprint(replicas), Want: want}
		}
		if err := validate(h.object(), p.at, p.pod); err != nil {
			return err
		}
		p.pod.Spec.Resources = wire.LevelDefaults(p.pod)
		if created := o.pod && h.UID != ""; !created {
			r.passOver(h, p)
		}
		o.pods += replicas
		o.templates = append(o.templates, Template{p.pod, replicas})
	}
	if o.pods != 1 && !o.pod {
		o.counted = fmt.Sprintf("%s: counted as %d pods", h.object(), o.pods)
	}
	if ended(h.Kind, doc) {
		o.ended, o.pods, o.templates, o.counted = true, 0, nil, ""
	}
	r.objects = append(r.objects, o)
	return nil
}

// passOver adds notes about a pod that is not created yet: about the devices that a webhook may
// add, and about annotations and labels that would have no effect if Berth placed the pod. It also
// records a pod with a RuntimeClass for addClasses.
func (r *reader) passOver(h *head, p *part) {
	note := func(text string) { r.ignored = append(r.ignored, h.object()+": "+p.at+text) }
	if p.pod.Spec.RuntimeClassName != nil {
		r.classed = append(r.classed, classed{h.object(), p.at, p.pod})
	}
	if networks := p.pod.Annotations[multusNetworks]; networks != "" {
		note("metadata.annotations[" + multusNetworks + "]: devices that a webhook adds for networks do not count")
	}
	for _, w := range wire.IgnoredKeys(p.pod, p.pod.Spec.SchedulerName) {
		note("metadata: " + strings.TrimPrefix(w.Text, "Berth ignores "))
	}
}

// multusNetworks is the annotation with the networks of a pod. The Network Resources Injector of
// the SR-IOV operator reads it when a pod is created, and adds the networks' devices to the
// requests of the first container.
const multusNetworks = "k8s.v1.cni.cncf.io/networks"

// ended reports whether a Pod or a Job has ended, according to its status.
func ended(kind string, doc []byte) bool {
	var o struct {
		Status struct {
			Phase string `json:"phase"`
			State struct {
				Phase string `json:"phase"`
			} `json:"state"`
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if yaml.Unmarshal(doc, &o) != nil {
		return false
	}
	over := func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionTrue && (c.Type == "Complete" || c.Type == "Failed")
	}
	switch kind {
	case "Pod":
		return o.Status.Phase == string(corev1.PodSucceeded) || o.Status.Phase == string(corev1.PodFailed)
	case "Job":
		return slices.ContainsFunc(o.Status.Conditions, over) || slices.Contains([]string{"Completed", "Failed", "Aborted", "Terminated"}, o.Status.State.Phase)
	}
	return false
}

// counts prints counts by name, such as "2 Pod, 1 Job".
func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d %s", of[name], name))
	}
	return strings.Join(all, ", ")
}
