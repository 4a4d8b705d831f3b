package cli

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/internal/wire"
)

// largeWorld has many nodes of two kinds. Each has a report of two pods, and bound pods that are
// not reported. On even nodes these have a placement, from which their order is known, on odd ones
// they do not. They request the same, unless varied is set.
func largeWorld(t testing.TB, nodes, unreported int, varied bool) *world {
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
			cpus := 1
			if varied {
				cpus += k
			}
			pod := w.addPod(fmt.Sprintf("pod-%05d-%d", i, k), name, int64(cpus), 0)
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

// remembered repeats the first answer of another handler for each request, so that the stand-in is
// not measured. Lists of core kinds are protobuf, as from an API server.
type remembered struct {
	http.Handler
	mu      sync.Mutex
	answers map[string]*httptest.ResponseRecorder
}

func (m *remembered) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.answers[r.URL.String()]
	if a == nil {
		a = httptest.NewRecorder()
		m.Handler.ServeHTTP(a, r)
		if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) && r.URL.RawQuery != "" {
			asProtobuf(a)
		}
		m.answers[r.URL.String()] = a
	}
	maps.Copy(out.Header(), a.Header())
	out.WriteHeader(a.Code)
	_, _ = out.Write(a.Body.Bytes())
}

// asProtobuf encodes a list again.
func asProtobuf(a *httptest.ResponseRecorder) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	object, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), a.Body.Bytes())
	if err != nil {
		panic(err)
	}
	a.Body.Reset()
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, object.GetObjectKind().GroupVersionKind().GroupVersion()).Encode(object, a.Body); err != nil {
		panic(err)
	}
	a.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
}

// processorTime returns the CPU time that this process has used. On a busy machine, it is more
// reliable than the elapsed time.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCluster asks about a cluster of 5,000 nodes, each with 4 pods that no report lists. The
// stand-in for the API server answers from memory, in pages.
func BenchmarkCluster(b *testing.B) {
	file := largeCluster(b, false)
	three := filepath.Join(b.TempDir(), "three.yaml")
	if err := os.WriteFile(three, []byte(strings.Replace(trainDeployment, ", nvidia.com/gpu: \"1\"", "", 1)), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, args := range [][]string{{"nodes"}, {"explain", "wanting"}, {"pods"}, {"fit", "-f", three}, {"defrag", "--for", three}} {
		b.Run(args[0], func(b *testing.B) { benchmarkVerb(b, file, args...) })
	}
	b.Run("explain, every pod asks for something else", func(b *testing.B) { benchmarkVerb(b, largeCluster(b, true), "explain", "wanting") })
}

// largeCluster returns the kubeconfig of a large cluster.
func largeCluster(b *testing.B, varied bool) string {
	w := largeWorld(b, 5000, 4, varied)
	w.pageOf = 500
	s := httptest.NewServer(&remembered{Handler: w, answers: map[string]*httptest.ResponseRecorder{}})
	b.Cleanup(s.Close)
	return kubeconfigFor(b, s.URL)
}

func benchmarkVerb(b *testing.B, file string, args ...string) {
	ask := func() {
		Run(b.Context(), append(append([]string{"berth"}, args...), "--kubeconfig", file), strings.NewReader(""), io.Discard, io.Discard)
	}
	ask()
	before := processorTime(b)
	for b.Loop() {
		ask()
	}
	b.ReportMetric((processorTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}
