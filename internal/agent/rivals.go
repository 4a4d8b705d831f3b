package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rival describes a program that also sets the CPUs of containers, and how to identify its pods. A
// pod belongs to the rival if it has the rival's namespace and ServiceAccount and is controlled by
// the rival's DaemonSet. An image name or an owner reference is not enough, because any tenant
// can choose it.
type Rival struct {
	// Program is the program's name in messages. The rival "koordlet" may carry out decisions.
	Program string
	// Namespace, DaemonSet and ServiceAccount identify its pods. All three must match.
	Namespace, DaemonSet, ServiceAccount string
}

// koordlet is the name of the rival that may carry out decisions instead of the agent.
const koordlet = "koordlet"

// DefaultRivals returns the known rivals, as their own manifests and charts install them.
func DefaultRivals() []Rival {
	rivals := []Rival{{koordlet, "koordinator-system", koordlet, koordlet}}
	for _, name := range []string{"dracpu", "dra-driver-cpu", "nri-resource-policy-balloons", "nri-resource-policy-topology-aware"} {
		rivals = append(rivals, Rival{name, metav1.NamespaceSystem, name, name})
	}
	const katalyst = "katalyst-agent"
	return append(rivals, Rival{katalyst, "katalyst-system", katalyst, katalyst})
}

// String returns the rival in the format of ParseRivals.
func (r *Rival) String() string {
	return r.Program + "=" + r.Namespace + "/" + r.DaemonSet + "/" + r.ServiceAccount
}

// ParseRivals parses rivals in the format PROGRAM=NAMESPACE/DAEMONSET/SERVICEACCOUNT, separated by
// commas; "" means none.
func ParseRivals(text string) ([]Rival, error) {
	out := []Rival{}
	if text == "" {
		return out, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		program, place, _ := strings.Cut(item, "=")
		parts := strings.Split(place, "/")
		if program == "" || len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("%q: want PROGRAM=NAMESPACE/DAEMONSET/SERVICEACCOUNT", item)
		}
		out = append(out, Rival{program, parts[0], parts[1], parts[2]})
	}
	return out, nil
}

// runs reports whether the pod belongs to the rival.
func (r *Rival) runs(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Namespace == r.Namespace && pod.Spec.ServiceAccountName == r.ServiceAccount &&
		owner != nil && owner.Kind == "DaemonSet" && owner.Name == r.DaemonSet
}

// rivalIn returns the program of the rival that the pod belongs to, or "".
func rivalIn(rivals []Rival, pod *corev1.Pod) string {
	if at := slices.IndexFunc(rivals, func(r Rival) bool { return r.runs(pod) }); at >= 0 {
		return rivals[at].Program
	}
	return ""
}

// famousImage returns the program of the rival whose name is in the pod's image, or "". This is
// only a hint, because any tenant can choose the name.
func famousImage(rivals []Rival, pod *corev1.Pod) string {
	rivals = slices.Concat(rivals, DefaultRivals())
	for i := range pod.Spec.Containers {
		image := pod.Spec.Containers[i].Image
		image = image[strings.LastIndex(image, "/")+1:]
		image, _, _ = strings.Cut(image, "@")
		image, _, _ = strings.Cut(image, ":")
		if slices.ContainsFunc(rivals, func(r Rival) bool { return r.Program == image }) {
			return image
		}
	}
	return ""
}

var errNoKoordlet = errors.New("koordlet should carry out decisions, but no pod on this node runs it: want a pod with the namespace, DaemonSet and ServiceAccount that --rivals names for koordlet")
