package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/internal/wire"
)

// largeWorld has many nodes of two kinds, each with a report of two pods and unreported pods that are bound to it: those of
// even nodes with a placement, which tells their order, those of odd ones without.
func largeWorld(t testing.TB, nodes, unreported int) *world {
	w := &world{t: t}
	first, second := *w.addPod("first", "", 2, 0), *w.addPod("second", "", 2, 0)
	w.pods = nil
	held := reportOf(t, "n1", requestOf(t, &first), requestOf(t, &second))
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		w.addNode(name, 0)
		n := *held
		n.Name = name
		w.addTopology(&n, nil)
		for k := range unreported {
			pod := w.addPod(fmt.Sprintf("pod-%05d-%d", i, k), name, 1, 0)
			pod.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
			if i%2 == 0 {
				pod.UID = types.UID("uid-first")
				annotate(t, pod, held, uint64(k+1), wire.VerdictOnly)
				pod.UID = types.UID(fmt.Sprintf("uid-%05d-%d", i, k))
				pod.Annotations[wire.PlacementAnnotation] = strings.ReplaceAll(pod.Annotations[wire.PlacementAnnotation], "uid-first", string(pod.UID))
			}
		}
	}
	w.addPod("wanting", "", 7, 0).CreationTimestamp = metav1.NewTime(noon)
	return w
}

// BenchmarkLive is a question to a cluster of 5,000 nodes with 4 pods each that no report tells of; the stand-in of the API
// server answers from memory.
func BenchmarkLive(b *testing.B) {
	file := largeWorld(b, 5000, 4).kubeconfig()
	for _, args := range [][]string{{"nodes"}, {"explain", "wanting"}, {"pods"}} {
		b.Run(args[0], func(b *testing.B) {
			for b.Loop() {
				Run(b.Context(), append(append([]string{"berth"}, args...), "--kubeconfig", file), strings.NewReader(""), io.Discard, io.Discard)
			}
		})
	}
}
