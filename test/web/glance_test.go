package web

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// firstGlance is how long the browser may take to draw a thousand nodes at a glance, each as its
// own figure.
const firstGlance = 500 * time.Millisecond

// many returns a file with that many nodes, copied from the snapshot's cluster: machines of all its
// shapes, with and without pods, some cordoned, some without a report, some in another pool.
func many(t *testing.T, nodes int) string {
	t.Helper()
	return changed(t, func(s object) {
		was := map[string][]any{}
		for _, field := range []string{"nodes", "nodeTopologies", "leases"} {
			was[field] = s[field].([]any)
			s[field] = []any{}
		}
		add := func(field string, o object) { s[field] = append(s[field].([]any), o) }
		for i := range nodes {
			node := was["nodes"][i%len(was["nodes"])].(object)
			name := fmt.Sprintf("%s-%04d", nameOf(node), i)
			one := named(t, node, name)
			one["spec"] = object{"unschedulable": i%50 == 7}
			if i%12 == 5 {
				one["metadata"].(object)["labels"].(object)["pool"] = "spare"
			}
			add("nodes", one)
			if i%100 == 9 {
				continue
			}
			report := named(t, findAmong(was["nodeTopologies"], nameOf(node)), name)
			if i%3 == 0 {
				emptied(report, node)
			}
			add("nodeTopologies", report)
			beat := named(t, findAmong(was["leases"], "berth-agent."+nameOf(node)), "berth-agent."+name)
			beat["spec"].(object)["holderIdentity"] = name
			add("leases", beat)
		}
	})
}

func findAmong(list []any, name string) object {
	for _, o := range list {
		if nameOf(o.(object)) == name {
			return o.(object)
		}
	}
	return nil
}

// emptied removes the pods from a report, so that all CPUs and memory of the node are free.
func emptied(report, node object) {
	status := report["status"].(object)
	tables, _ := status["memory"].([]any)
	for _, table := range tables {
		table.(object)["assignments"] = 0
		for _, amount := range table.(object)["resources"].([]any) {
			delete(amount.(object), "reserved")
		}
	}
	cpus, _ := strconv.Atoi(node["status"].(object)["capacity"].(object)["cpu"].(string))
	status["pods"], status["sharedCPUs"] = []any{}, fmt.Sprintf("0-%d", cpus-1)
}

// drawn counts what the page shows at a glance: the nodes that the pools' titles count, and the
// drawn bars and figures.
type drawn struct{ Nodes, Bars, Figures, Elements int }

const drawnNow = `(() => {
  const count = (d, of) => (d.match(of) || []).length
  const paths = [...document.querySelectorAll('.figures svg path')]
  return {
    nodes: [...document.querySelectorAll('.pool header .num')].reduce((n, e) => n + parseInt(e.textContent.replace(/,/g, '')), 0),
    bars: paths.filter(p => /frame|lacks/.test(p.getAttribute('class'))).reduce((n, p) => n + count(p.getAttribute('d'), /M/g), 0),
    figures: [...document.querySelectorAll('.figures [role=option]')].reduce((n, e) => n + Number(e.getAttribute('aria-setsize')), 0),
    elements: document.querySelectorAll('.dense *').length,
  }
})()`

// TestGlance shows two hundred and a thousand nodes on one page, folded and unfolded, and measures
// the drawing time.
func TestGlance(t *testing.T) {
	axe, err := os.ReadFile("../../internal/web/page/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make e2e-web installs it", err)
	}
	for _, nodes := range []int{200, 1000} {
		address := berth(t, "--snapshot", many(t, nodes))
		b := browse(t, 1280, 900, "light")
		b.open(address, view{"glance", "#/", []string{".figures svg path"}, ""}) // the default for many nodes
		var folded, each drawn
		b.eval(drawnNow, &folded)
		if folded.Nodes != nodes || folded.Figures >= nodes/4 {
			t.Errorf("%d nodes are folded to %+v", nodes, folded)
		}
		b.shoot(fmt.Sprintf("glance-%d-1280-light", nodes))
		b.accessible(string(axe), fmt.Sprintf("%d nodes at a glance", nodes))
		took := b.drawing(address, "#/?view=dense&each=1", nodes)
		b.eval(drawnNow, &each)
		t.Logf("%d nodes: %d figures; unfolded %d figures with %d bars in %d elements, drawn in %v", nodes, folded.Figures, each.Figures, each.Bars, each.Elements, took)
		if each.Nodes != nodes || each.Figures != nodes || each.Bars < 2*nodes || each.Elements > nodes {
			t.Errorf("%d nodes, each by itself: %+v", nodes, each)
		}
		if took > firstGlance {
			t.Errorf("%d nodes take %v to draw, want at most %v", nodes, took, firstGlance)
		}
		b.shoot(fmt.Sprintf("glance-each-%d-1280-light", nodes))
		b.fits("each", 1280)
	}
}

// drawing measures how long the browser takes to switch from lines to an address with figures. It
// returns the shortest of three times, because other load may delay one.
func (b *tab) drawing(address, to string, nodes int) time.Duration {
	b.Helper()
	best := time.Hour
	for range 3 {
		b.open(address, view{"lines", "#/?view=lines", []string{".line [role=rowheader]"}, ""})
		var ms float64
		b.eval(fmt.Sprintf(`new Promise(done => {
  const begun = performance.now()
  location.hash = %q
  const look = () => document.querySelectorAll('.figures svg path').length
    ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun))) : requestAnimationFrame(look)
  look()
})`, to), &ms)
		best = min(best, time.Duration(ms*float64(time.Millisecond)))
	}
	return best
}

// TestGlanceByKeysAndMouse selects figures, unfolds one, opens a node, and switches to lines and
// back.
func TestGlanceByKeysAndMouse(t *testing.T) {
	address := berth(t, "--snapshot", many(t, 200))
	b := browse(t, 1280, 900, "light")
	b.open(address, view{"glance", "#/", []string{".figures svg path"}, ""})
	b.press(kb.ArrowRight)
	b.until("the first figure is chosen", `document.querySelector('.figures .at') && document.querySelector('.chosen .line .name')`)
	first := b.text(".chosen .name a")
	b.press(kb.ArrowRight)
	b.until("the next is chosen", fmt.Sprintf(`document.querySelector('.chosen .name a').textContent !== %q`, first))
	b.press(kb.ArrowDown)
	b.until("a figure of the next pool is chosen", `document.querySelectorAll('.pool')[1].querySelector('.at')`)
	b.shoot("glance-chosen-1280-light")
	b.open(address, view{"glance", "#/?q=xeon", []string{".figures svg text"}, ""})
	var figures int
	b.eval(`document.querySelectorAll('.figures svg text').length`, &figures)
	b.press(kb.ArrowRight)
	b.until("nodes that look the same are counted", `/and [0-9]+ more/.test(document.querySelector('.chosen button')?.textContent)`)
	b.press(kb.Enter)
	b.until("they stand alone", fmt.Sprintf(`document.querySelectorAll('.figures svg text').length === %d && document.querySelector('.chosen button').textContent === 'fold'`, figures-1))
	name := b.text(".chosen .name a")
	b.press(kb.Enter)
	b.until("the node is shown", fmt.Sprintf(`location.hash === '#/nodes/%s'`, name))
	b.open(address, view{"each", "#/?view=dense&each=1&q=gpu", []string{".figures svg path"}, ""})
	b.do("opening a node by its figure", chromedp.MouseClickXY(b.middle(".figures", 12, 14)))
	b.until("its node is shown", `location.hash.startsWith('#/nodes/gpu-')`)
	b.press("c")
	b.until("the cluster is shown", `document.querySelector('.figures')`)
	b.press("d")
	b.until("lines are shown", `document.querySelector('.line [role=rowheader]') && location.hash.includes('view=lines')`)
	b.press("d")
	b.until("figures are shown", `document.querySelector('.figures svg path')`)
}

// middle returns a position in the first element of the selector, as fractions from its left and
// upper edge.
func (b *tab) middle(selector string, x, y float64) (float64, float64) {
	b.Helper()
	var at []float64
	b.eval(fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return [r.left, r.top] })()`, selector), &at)
	return at[0] + x, at[1] + y
}
