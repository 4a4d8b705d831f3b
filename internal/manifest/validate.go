package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corehelpers "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/internal/amounts"
	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
)

// validate applies the rules of ValidatePodCreate (pkg/apis/core/validation) that callers of this
// package rely on: names, labels, annotations, containers, resources and the names of volumes. It
// also refuses values that Berth cannot read. It does not check images or the sources of volumes.
func validate(object, at string, pod *corev1.Pod) error {
	v := validator{object: object, at: at}
	v.metadata(pod)
	v.containers(pod)
	for _, name := range slices.Sorted(maps.Keys(pod.Spec.Overhead)) {
		v.amount("spec.overhead["+string(name)+"]", name, pod.Spec.Overhead[name])
	}
	v.volumes(pod)
	if pod.Spec.Resources != nil {
		v.level(pod)
	}
	if len(v.errs) == 0 { // an amount that the API server accepts may be too large for Berth
		_, err := wire.ReadPod(pod)
		v.unread(err)
	}
	return errors.Join(v.errs...)
}

type validator struct {
	object string
	// at is the path of the pod in its workload, such as "spec.template.".
	at   string
	errs []error
}

func (v *validator) fail(path, value, want string) {
	v.errs = append(v.errs, &wire.FieldError{Object: v.object, Field: v.at + path, Value: value, Want: want})
}

// take adds the errors of Kubernetes' validation functions.
func (v *validator) take(list field.ErrorList) {
	for _, e := range list {
		v.fail(e.Field, fmt.Sprint(e.BadValue), wanted(e.Detail))
	}
}

// wanted makes the object of a FieldError's "want" from a message of Kubernetes' validation, such
// as "a valid label must consist of ...".
func wanted(detail string) string {
	return strings.Replace(strings.TrimPrefix(detail, "must be "), " must ", ": it must ", 1)
}

func (v *validator) metadata(pod *corev1.Pod) {
	if v.at == "" && pod.Name != "" {
		for _, want := range validation.IsDNS1123Subdomain(pod.Name) {
			v.fail("metadata.name", pod.Name, wanted(want))
		}
	}
	meta := field.NewPath("metadata")
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		v.take(metavalidation.ValidateLabels(map[string]string{key: pod.Labels[key]}, meta.Child("labels").Key(key)))
	}
	v.take(apivalidation.ValidateAnnotations(pod.Annotations, meta.Child("annotations")))
	known := wire.PodKeys()
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if strings.HasPrefix(key, "berth.dev/") && !slices.Contains(known, key) {
			v.fail("metadata.annotations["+key+"]", pod.Annotations[key],
				"a key that Berth reads: "+wire.AskKeys()+suggest.DidYouMean(key, known))
		}
	}
	_, rules := wire.ReadRules(pod)
	v.unread(rules)
	_, reservation := wire.ReadReservationAffinity(pod)
	v.unread(reservation)
	if pod.Spec.NodeName != "" {
		return // its gang no longer matters
	}
	_, gang := wire.ReadMembership(pod)
	v.unread(gang)
	if v.at == "" || wire.InGang(pod) { // a controller may make pods of a template members of a gang
		_, mates := wire.ReadMates(pod)
		v.unread(mates)
	}
}

// unread adds err, which package wire returned about a part of the pod, to the errors.
func (v *validator) unread(err error) {
	if wrong := new(wire.FieldError); errors.As(err, &wrong) {
		v.fail(wrong.Field, wrong.Value, wrong.Want)
	}
}

func (v *validator) containers(pod *corev1.Pod) {
	if len(pod.Spec.Containers) == 0 {
		v.fail("spec.containers", "", "at least one container")
	}
	seen := map[string]bool{}
	for place, c := range wire.Containers(pod) {
		at := place.Path().String()
		if seen[c.Name] {
			v.fail(at+".name", c.Name, "a name that no other container of the pod has")
		}
		seen[c.Name] = true
		for _, want := range validation.IsDNS1123Label(c.Name) {
			v.fail(at+".name", c.Name, wanted(want))
		}
		if p := c.RestartPolicy; p != nil && !slices.Contains(restarts, string(*p)) {
			v.fail(at+".restartPolicy", string(*p), "Always, OnFailure or Never"+suggest.DidYouMean(string(*p), restarts))
		}
		v.amounts(at+".resources", c.Resources.Requests, c.Resources.Limits)
		v.claims(at, c, pod)
	}
}

// restarts are the restart policies of a container. With Always, an init container is a sidecar.
var restarts = []string{string(corev1.ContainerRestartPolicyAlways), string(corev1.ContainerRestartPolicyOnFailure), string(corev1.ContainerRestartPolicyNever)}

// volumes checks that volumes have names, and that mounted volumes exist.
func (v *validator) volumes(pod *corev1.Pod) {
	var names []string
	for i := range pod.Spec.Volumes {
		name, at := pod.Spec.Volumes[i].Name, fmt.Sprintf("spec.volumes[%d].name", i)
		for _, want := range validation.IsDNS1123Label(name) {
			v.fail(at, name, wanted(want))
		}
		if slices.Contains(names, name) {
			v.fail(at, name, "a name that no other volume of the pod has")
		}
		names = append(names, name)
	}
	for at, c := range wire.Containers(pod) {
		for j, mount := range c.VolumeMounts {
			if !slices.Contains(names, mount.Name) {
				v.fail(at.Path().Child("volumeMounts").Index(j).Child("name").String(), mount.Name,
					"a name of spec.volumes"+suggest.DidYouMean(mount.Name, names))
			}
		}
	}
}

// claims checks that the pod has each claim that a container uses.
func (v *validator) claims(at string, c *corev1.Container, pod *corev1.Pod) {
	for i, claim := range c.Resources.Claims {
		if !slices.ContainsFunc(pod.Spec.ResourceClaims, func(p corev1.PodResourceClaim) bool { return p.Name == claim.Name }) {
			v.fail(fmt.Sprintf("%s.resources.claims[%d].name", at, i), claim.Name, "a name of spec.resourceClaims")
		}
	}
}

// level checks spec.resources, as validatePodResources does after the API server has set missing
// requests.
func (v *validator) level(pod *corev1.Pod) {
	own := pod.Spec.Resources
	v.amounts("spec.resources", own.Requests, own.Limits)
	refuse := func(path string, list corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if q := list[name]; !corehelpers.IsSupportedPodLevelResource(name) {
				v.fail(path+"["+string(name)+"]", q.String(), "only cpu, memory and huge pages here: a container asks for the rest")
			}
		}
	}
	refuse("spec.resources.limits", own.Limits)
	refuse("spec.resources.requests", own.Requests)
	if len(own.Claims) > 0 {
		v.fail("spec.resources.claims", own.Claims[0].Name, "no claims here: a container names them")
	}
	for i := range pod.Spec.Containers {
		limits := pod.Spec.Containers[i].Resources.Limits
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			limit := limits[name]
			if most, set := own.Limits[name]; set && limit.Cmp(most) > 0 {
				v.fail(fmt.Sprintf("spec.containers[%d].resources.limits[%s]", i, name), limit.String(), "at most the limit in spec.resources, "+most.String())
			}
		}
	}
	bare := corev1.Pod{Spec: pod.Spec}
	bare.Spec.Resources = nil
	sums := corehelpers.AggregateContainerRequests(wire.WithRequests(&bare), corehelpers.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		path := "spec.resources.requests"
		asked, set := own.Requests[name]
		if !set { // the API server sets the sum, which the limit has to cover
			path = "spec.resources.limits"
			asked, set = own.Limits[name]
		}
		if sum := sums[name]; set && sum.Cmp(asked) > 0 {
			v.fail(path+"["+string(name)+"]", asked.String(), "at least what the containers request, "+sum.String())
		}
	}
}

// amounts checks the same rules as Kubernetes' ValidateResourceRequirements.
func (v *validator) amounts(at string, requests, limits corev1.ResourceList) {
	huge, ordinary := false, false
	for _, list := range []struct {
		path    string
		amounts corev1.ResourceList
	}{{at + ".limits", limits}, {at + ".requests", requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			v.amount(list.path+"["+string(name)+"]", name, list.amounts[name])
			huge = huge || isHuge(name)
			ordinary = ordinary || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}
	}
	if huge && !ordinary {
		v.fail(at, "", "cpu or memory in addition to huge pages")
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		v.pair(at+".requests["+string(name)+"]", name, requests[name], limits)
	}
}

// pair compares a request with its limit. For huge pages and devices, request and limit must be
// equal.
func (v *validator) pair(at string, name corev1.ResourceName, asked resource.Quantity, limits corev1.ResourceList) {
	limit, limited := limits[name]
	whole := isHuge(name) || amounts.IsExtended(string(name))
	switch {
	case whole && !limited:
		v.fail(at, asked.String(), "a limit too: "+string(name)+" cannot be overcommitted")
	case whole && limit.Cmp(asked) != 0:
		v.fail(at, asked.String(), "as much as the limit, "+limit.String())
	case limited && asked.Cmp(limit) > 0:
		v.fail(at, asked.String(), "at most the limit, "+limit.String())
	}
}

// standard are the resources of containers whose names have no domain.
var standard = []string{"cpu", "memory", "ephemeral-storage"}

func (v *validator) amount(at string, name corev1.ResourceName, q resource.Quantity) {
	switch {
	case q.Sign() < 0:
		v.fail(at, q.String(), "0 or more")
	case isHuge(name):
		v.hugePages(at, name, q)
	case amounts.IsExtended(string(name)):
		if q.MilliValue()%1000 != 0 {
			v.fail(at, q.String(), "a whole number: devices are not divided")
		}
	case !slices.Contains(standard, string(name)) && !strings.Contains(string(name), "/"):
		v.fail(at, q.String(), "a resource named "+strings.Join(standard, ", ")+", hugepages-SIZE or a name with a domain, like nvidia.com/gpu"+
			suggest.DidYouMean(string(name), standard))
	}
}

// hugePages checks what Kubernetes' IsHugePageResourceValueDivisible checks. It also checks that
// the page size is a power of two.
func (v *validator) hugePages(at string, name corev1.ResourceName, q resource.Quantity) {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	bytes := size.Value()
	switch {
	case err != nil || bytes <= 0 || bytes&(bytes-1) != 0:
		v.fail(at, q.String(), "huge pages of a size that is a power of two, like hugepages-2Mi or hugepages-1Gi")
	case q.Value()%bytes != 0:
		v.fail(at, q.String(), "a multiple of the page size, "+size.String())
	}
}

func isHuge(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
