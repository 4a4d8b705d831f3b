package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The size of the cluster, and the limits of time and memory.
const (
	loadNodes   = 5000
	loadPods    = 100_000
	loadStreams = 50
	// firstView is how long the first view may take after the cluster was read.
	firstView = time.Second
	// streamMemory is how much the streams may add to the heap, in MiB.
	streamMemory = 100
)

// large returns a server with many copies of the snapshot's cluster, and with ordinary pods next to
// the pinned ones.
func large(t testing.TB) *apiServer {
	s := newAPIServer(t)
	small := s.lists
	s.lists = map[string][]object{}
	bound := map[string][]object{}
	for _, p := range small[podsPath] {
		if node, ok := p["spec"].(object)["nodeName"].(string); ok {
			bound[node] = append(bound[node], p)
		}
	}
	for i := range loadNodes {
		was := small[nodesPath][i%len(small[nodesPath])]
		name := fmt.Sprintf("%s-%04d", nameOf(was), i)
		s.lists[nodesPath] = append(s.lists[nodesPath], named(t, was, name))
		s.lists[reportsPath] = append(s.lists[reportsPath], named(t, findIn(small[reportsPath], nameOf(was)), name))
		for j := range loadPods / loadNodes {
			pods := bound[nameOf(was)]
			p := named(t, pods[j%len(pods)], fmt.Sprintf("pod-%d-%d", i, j))
			if j >= len(pods) {
				p["metadata"].(object)["uid"] = fmt.Sprintf("u-%d-%d", i, j)
				delete(p["metadata"].(object), "annotations")
				p["spec"].(object)["containers"] = []object{{"name": "main"}}
				p["status"] = object{"phase": "Running", "qosClass": "BestEffort"}
			}
			p["spec"].(object)["nodeName"] = name
			s.lists[podsPath] = append(s.lists[podsPath], p)
		}
	}
	return s
}

func findIn(list []object, name string) object {
	for _, o := range list {
		if nameOf(o) == name {
			return o
		}
	}
	return nil
}

// TestLoad opens the page of a cluster with 5,000 nodes and 100,000 pods, and fifty streams.
func TestLoad(t *testing.T) {
	s := large(t)
	begun := time.Now()
	address, heap := berthProcess(t, "--kubeconfig", s.start(t), "--stale-after", "1000000h")
	waitFor(t, address)
	t.Logf("%d nodes and %d pods are read after %.1f s", len(s.lists[nodesPath]), len(s.lists[podsPath]), time.Since(begun).Seconds())
	b := browse(t, 1280, 900, "light")
	b.do("warming the browser", navigate(address+"healthz"))
	took := math.Inf(1)
	for tries := 0; tries < 3 && took > float64(firstView.Milliseconds()); tries++ { // other load may delay one try
		var ms float64
		b.do("opening", navigate("about:blank"), navigate(address+"#/?view=lines"))
		b.until("nodes are there", `document.querySelectorAll('.line [role=rowheader]').length > 10 && document.querySelector('.count')`)
		b.eval(`performance.getEntriesByType('resource').find(e => e.name.includes('api/rows')).responseEnd`, &ms)
		took = min(took, ms)
	}
	t.Logf("rows are in the browser %.0f ms after the page was asked for", took)
	b.shoot("load-1280-light")
	if got := b.text(".count"); got != "5,000 nodes" {
		t.Errorf("the page shows %q", got)
	}
	if took > float64(firstView.Milliseconds()) {
		t.Errorf("the first view took %.0f ms, want at most %v", took, firstView)
	}
	b.do("scrolling", scrollTo(5000*36))
	b.until("the last node is there", `[...document.querySelectorAll('.line')].some(l => l.getAttribute('aria-rowindex') === '5001')`)
	b.do("scrolling back", scrollTo(0))
	s.cordon(t, 0, 20)
	b.until("changes are there", `document.querySelector('#row-0')?.textContent.includes('ordoned')`)
	before := s.settled(t, b, address, heap)
	t.Cleanup(openStreams(t, address))
	after := s.settled(t, b, address, heap)
	t.Logf("heap: %d MiB with one page, %d MiB with %d streams more", before, after, loadStreams)
	if after-before > streamMemory {
		t.Errorf("%d streams cost %d MiB, want at most %d", loadStreams, after-before, streamMemory)
	}
}

// cordon cordons nodes.
func (s *apiServer) cordon(t testing.TB, from, to int) {
	for _, o := range s.lists[nodesPath][from:to] {
		node := named(t, o, nameOf(o))
		node["spec"] = object{"unschedulable": true}
		s.tell(t, nodesPath, "MODIFIED", "Node", node)
	}
}

// collections is the number of garbage collections to compare. The heap after a collection includes
// objects that were allocated during it, so the smallest of several is closest to the live heap.
const collections = 5

// settled returns the heap after collections, in MiB, while the cluster changes and a client reads
// all rows.
func (s *apiServer) settled(t testing.TB, b *tab, address string, heap *gcTrace) int {
	t.Helper()
	begun := heap.begin()
	nodes := s.lists[nodesPath]
	for i := 0; i < 4000; i++ {
		from := i * 5 % len(nodes)
		s.cordon(t, from, from+5)
		last := nameOf(nodes[from+4])
		b.until(last+" is told of", fmt.Sprintf(`fetch('api/nodes/%s').then(r => r.json()).then(n => n.row.conditions?.includes('Unschedulable'))`, last))
		for range 4 {
			fetch(t, address+"api/rows")
		}
		if count, least := heap.least(); count > begun+collections {
			return least
		}
	}
	count, _ := heap.least()
	t.Fatalf("garbage was collected %d times in 4,000 changes, want %d", count-begun, collections+1)
	return 0
}

// fetch reads a whole answer.
func fetch(t testing.TB, address string) {
	t.Helper()
	answer, err := http.Get(address)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		err = errors.Join(err, answer.Body.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until the cluster has been read.
func waitFor(t testing.TB, address string) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		answer, err := http.Get(address + "api/cluster")
		if err != nil {
			continue
		}
		line, _ := bufio.NewReader(answer.Body).ReadString('\n')
		_ = answer.Body.Close()
		if strings.Contains(line, `"ready":true`) {
			return
		}
	}
	t.Fatal("the cluster is not read after 4 minutes")
}

// openStreams opens streams, each of which has delivered data. The returned function closes them.
func openStreams(t testing.TB, address string) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	for range loadStreams {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(answer.Body)
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry:") {
			t.Fatalf("a stream begins with %q: %v", line, err)
		}
		go func() {
			for {
				if _, err := lines.ReadString('\n'); err != nil {
					_ = answer.Body.Close()
					return
				}
			}
		}()
	}
	return cancel
}
