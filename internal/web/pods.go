package web

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/topology"
)

// maxFound is the number of pods on a page of the list.
const maxFound = 200

type listed struct {
	found
	// CPUs is the CPU request in thousandths.
	CPUs int64 `json:"milliCPUs,omitempty"`
	// Has lists the resources that the pod has or was promised. It is nil for a pod that no kubelet
	// would pin.
	Has *survey.Pod `json:"has,omitempty"`

	pod *corev1.Pod
}

// podOrders are the orders of the list, by their names. Pods that compare equal are ordered by
// name.
var podOrders = map[string]func(a, b *listed) int{
	"":      func(*listed, *listed) int { return 0 },
	"node":  func(a, b *listed) int { return cmp.Compare(a.Node, b.Node) },
	"young": func(a, b *listed) int { return cmp.Compare(b.Created, a.Created) },
	"old":   func(a, b *listed) int { return cmp.Compare(a.Created, b.Created) },
	"cpus":  func(a, b *listed) int { return cmp.Compare(b.CPUs, a.CPUs) },
}

// podKinds are filters of the list, by their names. They select pods by the resources that the pods
// have or were promised.
var podKinds = map[string]func(*survey.Pod) bool{
	"exact":   func(p *survey.Pod) bool { return p.Certainty == wire.Exact.String() },
	"verdict": func(p *survey.Pod) bool { return p.Certainty == wire.VerdictOnly.String() },
	"differs": func(p *survey.Pod) bool { return p.Outcome == survey.PromiseBroken },
	"split":   func(p *survey.Pod) bool { return p.Alignment != "" && p.Alignment != topology.WithinNode },
}

// pods returns one page of the pods that match the filters of the request, in the requested order.
// Every word of q must be in "namespace/name" or in the node's name.
func (s *Server) pods(r *http.Request, v Viewer) (any, error) {
	q := r.URL.Query()
	from, err := strconv.Atoi(cmp.Or(q.Get("from"), "0"))
	if err != nil || from < 0 {
		return nil, &failure{http.StatusBadRequest, "from=" + quoted(q.Get("from")) + ": want the number of pods before the page"}
	}
	order, err := chosen("sort", q.Get("sort"), podOrders)
	if err != nil {
		return nil, err
	}
	all := s.matching(q.Get("q"), q.Get("namespace"), q.Get("phase"), v)
	if kind := q.Get("kind"); kind != "" {
		is, err := chosen("kind", kind, podKinds)
		if err != nil {
			return nil, err
		}
		done, err := s.explains.take() // the search looks at every pod
		if err != nil {
			return nil, err
		}
		defer done()
		s.sumUp(all)
		all = slices.DeleteFunc(all, func(p *listed) bool { return p.Has == nil || !is(p.Has) })
	}
	slices.SortFunc(all, func(a, b *listed) int {
		return cmp.Or(order(a, b), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	page := all[min(from, len(all)):min(from+maxFound, len(all))]
	s.sumUp(page)
	return map[string]any{"pods": page, "total": len(all), "from": from, "size": maxFound}, nil
}

// chosen returns the value with the given name in the map from. The argument key is the name of the
// query parameter, for the error, which lists the valid names.
func chosen[T any](key, name string, from map[string]T) (T, error) {
	out, ok := from[name]
	if !ok {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(from)), func(n string) bool { return n == "" })
		return out, &failure{http.StatusBadRequest, fmt.Sprintf("%s=%s: want %s", key, quoted(name), strings.Join(names, ", "))}
	}
	return out, nil
}

// matching returns the pods that match the search and that the viewer may see.
func (s *Server) matching(text, namespace, phase string, v Viewer) []*listed {
	words := strings.Fields(strings.ToLower(text))
	out := []*listed{}
	for _, p := range s.Live.Pods() {
		if namespace != "" && p.Namespace != namespace || !v.Sees(p.Namespace) {
			continue
		}
		one := &listed{found: foundPod(p), pod: p}
		if phase != "" && one.Phase != phase {
			continue
		}
		text := strings.ToLower(p.Namespace + "/" + p.Name + " " + p.Spec.NodeName)
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			continue
		}
		one.CPUs = wire.ReadAmounts(p)[string(corev1.ResourceCPU)]
		out = append(out, one)
	}
	return out
}

func (s *Server) sumUp(pods []*listed) {
	all := make([]*corev1.Pod, len(pods))
	for i := range pods {
		all[i] = pods[i].pod
	}
	for i, has := range s.Live.Summaries(all) {
		pods[i].Has = has
	}
}
