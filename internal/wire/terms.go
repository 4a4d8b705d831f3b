package wire

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	dra "github.com/berth-dev/berth/internal/claims"
	"github.com/berth-dev/berth/placement"
)

// Terms are the scheduler's arguments that apply to every pod that it places.
type Terms struct {
	ExclusiveNamespaces Namespaces `json:"exclusiveNamespaces,omitempty"`
	// Keep is CPUsNearDevices, or "" to keep no CPUs for pods with devices.
	Keep string `json:"keep,omitempty"`
	// CPUsPerDevice is the number of CPUs that are kept for each device, by resource; see
	// placement.NewKeep.
	CPUsPerDevice map[string]int `json:"cpusPerDevice,omitempty"`
	// BestEffortAnywhere means that pods with Volcano's policy best-effort may use nodes with any
	// topology manager policy.
	BestEffortAnywhere bool `json:"bestEffortAnywhere,omitempty"`
	// Claims is near, required or empty. It is the default for pods that have claims but no
	// annotation berth.dev/claims.
	Claims string `json:"claims,omitempty"`
	// NUMAAttributes names device attributes whose value is the id of a NUMA node (dra.Sources).
	NUMAAttributes []string `json:"numaAttributes,omitempty"`

	kept *placement.Keep // Keep and CPUsPerDevice, set by Check
}

// CPUsNearDevices is the value of Terms.Keep that keeps CPUs near devices for pods that request
// devices.
const CPUsNearDevices = "cpusNearDevices"

// maxKept is the maximum number of resources in CPUsPerDevice.
const maxKept = 64

// TermError is an error in a field of Terms.
type TermError struct {
	// Field is the name of the argument. At is the position in the argument, or "" for the whole
	// argument.
	Field, At string
	// Why names the value and the expected form.
	Why string
}

func (e *TermError) Error() string { return e.Field + e.At + ": " + e.Why }

// Check returns a TermError for a wrong value. Call it before Impose; otherwise Keep has no effect.
func (t *Terms) Check() error {
	if err := t.ExclusiveNamespaces.Check("exclusiveNamespaces"); err != nil {
		return err
	}
	if _, ok := dra.ParseMode(t.Claims); !ok && t.Claims != "" {
		return &TermError{"claims", "", fmt.Sprintf("%.100q: want %s, or nothing", t.Claims, dra.ModesWanted)}
	}
	if _, err := dra.DefaultSources().With(t.NUMAAttributes); err != nil {
		return &TermError{"numaAttributes", "", err.Error()}
	}
	const keep, cpusPerDevice = "keep", "cpusPerDevice"
	switch {
	case t.Keep != "" && t.Keep != CPUsNearDevices:
		return &TermError{keep, "", fmt.Sprintf("%.100q: want %s, or nothing", t.Keep, CPUsNearDevices)}
	case t.Keep != "" && len(t.CPUsPerDevice) == 0:
		return &TermError{keep, "", t.Keep + ": want cpusPerDevice as well, such as {nvidia.com/gpu: 8}"}
	case t.Keep == "" && len(t.CPUsPerDevice) > 0:
		return &TermError{cpusPerDevice, "", "want keep: " + CPUsNearDevices + " as well"}
	case len(t.CPUsPerDevice) > maxKept:
		return &TermError{cpusPerDevice, "", fmt.Sprintf("%d resources: want at most %d", len(t.CPUsPerDevice), maxKept)}
	}
	for resource := range t.CPUsPerDevice {
		if wrong := validation.IsQualifiedName(resource); len(wrong) > 0 {
			return &TermError{cpusPerDevice, "", fmt.Sprintf("%.100q: want the name of a resource, such as nvidia.com/gpu", resource)}
		}
	}
	if t.kept = nil; t.Keep == "" {
		return nil
	}
	kept, err := placement.NewKeep(t.CPUsPerDevice)
	if err != nil {
		return &TermError{cpusPerDevice, "", err.Error()}
	}
	t.kept = kept
	return nil
}

// ReadPod is like ReadPending, but applies the terms. It is for code that places the pod or
// predicts its placement.
func (t *Terms) ReadPod(pod *corev1.Pod) (Ask, error) {
	ask, err := ReadPending(pod)
	t.Impose(pod.Namespace, &ask.Request.Rules)
	return ask, err
}

// ReadClaims returns the mode for a pod with claims: the pod's own, or otherwise the default in
// t.Claims.
func (t *Terms) ReadClaims(pod *corev1.Pod) (dra.Mode, error) {
	mode, err := ReadClaims(pod)
	if err == nil && mode == dra.Free {
		mode, _ = dra.ParseMode(t.Claims)
	}
	return mode, err
}

// Sources returns the attributes in which drivers publish the NUMA node of a device. If
// NUMAAttributes is invalid (see Check), the result has only the attributes that Berth knows.
func (t *Terms) Sources() dra.Sources {
	out, _ := dra.DefaultSources().With(t.NUMAAttributes)
	return out
}

// Impose applies the terms to the rules of a pod of the namespace.
func (t *Terms) Impose(namespace string, rules *placement.Rules) {
	rules.MayWithhold, rules.Keep = t.ExclusiveNamespaces.Allow(namespace), t.kept
	if t.BestEffortAnywhere {
		*rules = BestEffortAnywhere(*rules)
	}
}

// AnyNamespace in Namespaces means all namespaces.
const AnyNamespace = "*"

// Namespaces are names of namespaces in an argument of the scheduler.
type Namespaces []string

// Allow reports whether the list contains the namespace, or AnyNamespace.
func (n Namespaces) Allow(namespace string) bool {
	return slices.Contains(n, namespace) || slices.Contains(n, AnyNamespace)
}

// Check returns a TermError for an invalid name of a namespace.
func (n Namespaces) Check(argument string) error {
	for i, name := range n {
		if wrong := validation.IsDNS1123Label(name); name != AnyNamespace && len(wrong) > 0 {
			return &TermError{argument, fmt.Sprintf("[%d]", i), fmt.Sprintf("%.100q: want the name of a namespace, or *", name)}
		}
	}
	return nil
}
