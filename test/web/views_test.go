package web

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// view is a page of the web interface, with the elements that exist when the page is complete.
type view struct {
	name, address string
	wait          []string
	// do is a script that runs before the test waits.
	do string
}

// submit sends the initial form of the page of new pods.
const submit = `document.querySelector('.fit-form').requestSubmit()`

// compare requests the table of before and after.
const compare = `document.querySelector('.fit-form button[value=compare]').click()`

var views = []view{
	{"cluster", "#/", []string{".total .value", ".line [role=rowheader]"}, ""},
	{"glance", "#/?view=dense", []string{".total .value", ".figures svg path"}, ""},
	{"glance-gpu", "#/?view=dense&each=1&r=nvidia.com%2Fgpu", []string{".total .value", ".without"}, ""},
	{"memory", "#/?r=memory&sort=used", []string{".total .value", ".line [role=rowheader]"}, ""},
	{"node", "#/nodes/gpu-2", []string{".stage svg", ".berths-list li"}, ""},
	{"node-2", "#/nodes/pmem-1", []string{".stage svg", ".berths-list li"}, ""},
	{"pod", "#/pods/research/train-0", []string{".asks li", "table td", ".stage svg"}, ""},
	{"wide", "#/pods/inference/wide-0", []string{".groups li", ".refusal td"}, ""},
	{"toolarge", "#/pods/data/mammoth", []string{".groups li"}, ""},
	{"pods", "#/pods", []string{"table td"}, ""},
	{"waiting", "#/pending", []string{".card td"}, ""},
	{"gangs", "#/gangs", []string{"table td"}, ""},
	{"gang", "#/gangs/inference/gang/wide", []string{".notice", "table td"}, ""},
	{"stranded", "#/stranded", []string{".card td"}, ""},
	{"gone", "#/nodes/nobody", []string{".notice"}, ""},
	{"fit", "#/fit", []string{".fitted .stage svg .lit", ".fitted .groups li"}, submit},
	{"compare", "#/fit?nps=2&reserved=0-3", []string{".compared td", ".compared .asks li"}, compare},
	{"compare-moving", "#/fit?policy=none", []string{".compared td"}, compare},
	{"fit-nps", "#/fit?nps=2&on=gpu-1", []string{".fitted .stage svg .lit", ".notice.note"}, submit},
}

// screens are a phone, a tablet, a laptop and a wide screen.
var screens = []struct {
	width  int64
	scheme string
}{{390, "light"}, {390, "dark"}, {800, "light"}, {800, "dark"}, {1280, "light"}, {1280, "dark"}, {1920, "light"}, {1920, "dark"}}

// TestViews opens every view on every screen, saves a picture, and checks accessibility with axe.
func TestViews(t *testing.T) {
	address := berth(t, "--snapshot", ganged(t))
	axe, err := os.ReadFile("../../internal/web/page/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make e2e-web installs it", err)
	}
	for _, s := range screens {
		t.Run(fmt.Sprintf("%d-%s", s.width, s.scheme), func(t *testing.T) {
			b := browse(t, s.width, 900, s.scheme)
			for _, v := range views {
				b.open(address, v)
				b.shoot(fmt.Sprintf("%s-%d-%s", v.name, s.width, s.scheme))
				b.accessible(string(axe), fmt.Sprintf("%s at %d, %s", v.name, s.width, s.scheme))
				b.fits(v.name, s.width)
			}
		})
	}
}

// hiddenCells returns the cells of NUMA nodes that are not completely visible on a phone, below the
// name of their node.
const hiddenCells = `[...document.querySelectorAll('.line:not(.head)')].flatMap(line => {
  const name = line.querySelector('[role=rowheader]').getBoundingClientRect(), box = line.getBoundingClientRect()
  const cells = [...line.querySelectorAll('.cell')]
  if (!cells.length) return [line.textContent]
  return cells.filter(c => {
    const r = c.getBoundingClientRect()
    return r.width < 20 || r.left < 0 || r.right > innerWidth || r.top < name.bottom - 2 || r.bottom > box.bottom
  }).map(c => line.id + ': ' + c.textContent)
})`

// TestPhone shows the NUMA nodes of every node on a phone, and all views in the header.
func TestPhone(t *testing.T) {
	address := berth(t, "--snapshot", "testdata/cluster.berth")
	b := browse(t, 390, 844, "light")
	b.open(address, views[0])
	var hidden []string
	b.eval(hiddenCells, &hidden)
	if len(hidden) > 0 {
		t.Errorf("cells that are not seen: %q", hidden)
	}
	var columns int
	b.eval(`[...document.querySelectorAll('.line .wide')].filter(e => e.checkVisibility()).length`, &columns)
	if columns > 0 {
		t.Errorf("%d cells of the column Policy are shown", columns)
	}
}

// roomFor asks which pods would have to move for a pod that fits nowhere now.
const roomFor = `(() => {
  const yaml = "apiVersion: v1\nkind: Pod\nmetadata: {name: big}\nspec: {containers: [{name: main, image: big, resources: {limits: {cpu: 8, memory: 8Gi, nvidia.com/gpu: 3}}}]}"
  document.querySelector('.yaml textarea').value = yaml
  document.querySelector('.fit-form').requestSubmit()
})()`

// TestRoom draws a plan that moves pods, before and after.
func TestRoom(t *testing.T) {
	address := berth(t, "--snapshot", owned(t))
	axe, err := os.ReadFile("../../internal/web/page/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make e2e-web installs it", err)
	}
	for _, width := range []int64{1280, 800} {
		for _, scheme := range []string{"light", "dark"} {
			b := browse(t, width, 900, scheme)
			b.open(address, view{"room", "#/fit", []string{".fit-form + div button"}, roomFor})
			b.do("asking for room", chromedp.Click(".fit-form + div button", chromedp.ByQuery))
			b.until("the plan is drawn", `document.querySelectorAll('.versus').length === 2 && document.querySelector('.versus .lit')`)
			b.shoot(fmt.Sprintf("room-%d-%s", width, scheme))
			b.accessible(string(axe), fmt.Sprintf("room at %d, %s", width, scheme))
			b.fits("room", width)
		}
	}
}

// owned returns a file with the snapshot and a controller for every pod.
func owned(t *testing.T) string {
	t.Helper()
	return changed(t, func(s object) {
		for _, p := range s["pods"].([]any) {
			meta := p.(object)["metadata"].(object)
			meta["ownerReferences"] = []any{object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": meta["name"], "uid": meta["uid"], "controller": true}}
		}
		s["podDisruptionBudgets"] = []any{}
	})
}

// ganged returns a file with the snapshot, a gang of two waiting pods, and a gang without pods.
func ganged(t *testing.T) string {
	t.Helper()
	return changed(t, func(s object) {
		for _, p := range s["pods"].([]any) {
			if meta := p.(object)["metadata"].(object); strings.HasPrefix(meta["name"].(string), "wide-") {
				meta["annotations"] = object{"berth.dev/gang": "wide", "berth.dev/gang-minimum": "2"}
			}
		}
		s["podGroups"] = []any{object{"apiVersion": "scheduling.volcano.sh/v1beta1", "metadata": object{"namespace": "research", "name": "training-of-a-large-model"}, "spec": object{"minMember": 3}}}
	})
}

// changed returns a file with the changed snapshot.
func changed(t *testing.T, change func(s object)) string {
	t.Helper()
	in, err := os.Open("testdata/cluster.berth")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	var s object
	if err := json.NewDecoder(unpacked).Decode(&s); err != nil {
		t.Fatal(err)
	}
	change(s)
	path := filepath.Join(t.TempDir(), "changed.berth")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	packer := gzip.NewWriter(out)
	if err := errors.Join(json.NewEncoder(packer).Encode(s), packer.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// open loads a view again.
func (b *tab) open(address string, v view) {
	b.Helper()
	var ignored any
	b.do("opening "+v.name, navigate("about:blank"), navigate(address+v.address))
	b.eval("document.fonts.ready.then(() => null)", &ignored)
	if v.do != "" {
		b.see("main")
		b.eval(v.do+";null", &ignored)
	}
	for _, selector := range v.wait {
		b.see(selector)
	}
}

// accessible checks the page with axe.
func (b *tab) accessible(axe, what string) {
	b.Helper()
	var ignored any
	b.eval(axe+";null", &ignored)
	var found string
	b.eval(`axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, where: v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + ' | ' + (n.any[0]?.message || n.failureSummary))}))))`, &found)
	var violations []struct {
		ID, Help string
		Where    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.Fatal(err)
	}
	for _, v := range violations {
		b.Errorf("%s: %s: %s\n  %s", what, v.ID, v.Help, strings.Join(v.Where, "\n  "))
	}
}

// beyond returns the elements that extend over the right edge of the screen. Drawings and the
// tables of refusals have a column for every NUMA node: they may scroll in their boxes.
const beyond = `[...document.querySelectorAll('body *')].filter(e => {
  const r = e.getBoundingClientRect()
  return r.right > innerWidth + 0.5 && r.width > 1 && !e.closest('svg, .needs') && e.checkVisibility()
}).map(e => e.outerHTML.slice(0, 120)).slice(0, 5)`

// squeezed returns the values of a card that do not have the card's whole width. On a phone the
// values are below each other.
const squeezed = `[...document.querySelectorAll('.stack td')].filter(e => {
  const row = getComputedStyle(e.parentElement), wide = e.parentElement.clientWidth - parseFloat(row.paddingLeft) - parseFloat(row.paddingRight)
  return e.checkVisibility() && getComputedStyle(e).display === 'block' && e.offsetWidth < wide - 1
}).map(e => e.dataset.label + ': ' + e.textContent).slice(0, 5)`

// fits checks that the page needs no sideways scrolling, and that no value is squeezed.
func (b *tab) fits(what string, width int64) {
	b.Helper()
	var wide int64
	b.eval("document.documentElement.scrollWidth", &wide)
	if wide > width {
		b.Errorf("%s is %d pixels wide, of %d", what, wide, width)
	}
	var over []string
	if b.eval(beyond, &over); len(over) > 0 {
		b.Errorf("%s at %d: wider than the screen:\n  %s", what, width, strings.Join(over, "\n  "))
	}
	var narrow []string
	if b.eval(squeezed, &narrow); len(narrow) > 0 {
		b.Errorf("%s at %d: not as wide as the card: %q", what, width, narrow)
	}
}
