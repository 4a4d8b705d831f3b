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

// largeWorld has many nodes of two kinds, each with a report of two pods and unreported pods that
// are bound to it: those of even nodes with a placement, which tells their order, those of odd ones
// without. They ask for the same, unless varied.
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

// remembered serves what another handler answered when it was first asked, so that what is measured
// is not the stand-in. Lists of the core kinds come as protobuf, as from an API server.
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

// asProtobuf writes a list again.
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

// processorTime is what this process has used of all processors: on a busy machine it says more
// than the time that passed.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCluster asks a cluster of 5,000 nodes, each with 4 pods that no report lists; the
// stand-in of the API server answers from memory, in pages.
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

// largeCluster returns a kubeconfig.
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
