package web

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// stridedCPUs and raggedCPUs are forty CPUs each: every other CPU, and an irregular set.
const (
	stridedCPUs = "2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50,52,54,56,58,60,62,64,66,68,70,72,74,76,78,80"
	raggedCPUs  = "3,5,8,10,13,15,18,20,23,25,28,30,33,35,38,40,43,45,48,50,53,55,58,60,63,65,68,70,73,75,78,80,83,85,88,90,93,95,98,100"
)

// held returns a file with the snapshot, and with pods that other controllers hold back, a pod that
// does not fit on eight NUMA nodes, and pods with long lists of CPUs.
func held(t *testing.T) string {
	t.Helper()
	return changed(t, func(s object) {
		like := findAmong(s["pods"].([]any), "postgres-0")
		add := func(name string, spec object) object {
			pod := named(t, like, name)
			meta := pod["metadata"].(object)
			meta["namespace"], meta["uid"] = "held", name
			delete(meta, "annotations")
			delete(pod["spec"].(object), "nodeName")
			for key, value := range spec {
				pod["spec"].(object)[key] = value
			}
			pod["status"] = object{"phase": "Pending", "qosClass": "Guaranteed"}
			s["pods"] = append(s["pods"].([]any), pod)
			return pod
		}
		says := func(pod object, message string) {
			pod["status"].(object)["conditions"] = []any{object{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/6 nodes are available: " + message}}
		}
		asks := func(pod object, resources object) {
			pod["spec"].(object)["containers"].([]any)[0].(object)["resources"] = object{"limits": resources, "requests": resources}
		}
		for _, name := range []string{"gated-0", "gated-1"} {
			add(name, object{"schedulingGates": []any{object{"name": "example.com/quota"}}})
		}
		says(add("claim-0", object{"volumes": []any{object{"name": "v", "persistentVolumeClaim": object{"claimName": "data-of-claim-0"}}}}), "pod has unbound immediate PersistentVolumeClaims. preemption: 0/6 nodes are available: 6 Preemption is not helpful for scheduling.")
		add("spread-0", object{"topologySpreadConstraints": []any{object{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}}})
		says(add("other-0", nil), "6 the moon is in the wrong house.")
		says(add("other-1", nil), "5 the moon is in the wrong house, 1 node(s) were unschedulable.")
		addZones(s, "zones-1")
		unknown := add("unknown-0", object{"nodeName": "zones-1"})
		unknown["status"] = object{"phase": "Running", "qosClass": "Guaranteed", "startTime": "2026-11-22T18:30:00Z"}
		asks(add("eight-0", object{"nodeSelector": object{"kubernetes.io/hostname": "epyc-1"}}), object{"cpu": "32", "memory": "120Gi"})
		for name, cpus := range map[string]string{"strided-0": stridedCPUs, "a-stateful-set-with-a-name-of-some-length-0": raggedCPUs} {
			pod := add(name, object{"nodeName": "epyc-2"})
			asks(pod, object{"cpu": "40", "memory": "1Gi"})
			pod["metadata"].(object)["annotations"] = object{"berth.dev/placement": fmt.Sprintf(`{"v":1,"seq":1,"report":1,"uid":%q,"certainty":"exact","guarantee":"full","containers":[{"name":"main","hint":{"numa":"0-1","preferred":true},"cpus":%q}]}`, name, cpus)}
		}
	})
}

// addZones adds a node with only a NodeResourceTopology: eight NUMA nodes with a GPU each.
func addZones(s object, name string) {
	amount := func(resource, total, free string) object {
		return object{"name": resource, "capacity": total, "allocatable": total, "available": free}
	}
	zones := []any{}
	for i := range 8 {
		zones = append(zones, object{"name": fmt.Sprint("node-", i), "type": "Node", "resources": []any{amount("cpu", "32", fmt.Sprint(28-i)), amount("nvidia.com/gpu", "1", fmt.Sprint(i%2))}})
	}
	capacity := object{"cpu": "256", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"}
	s["nodes"] = append(s["nodes"].([]any), object{"metadata": object{"name": name, "labels": object{"kubernetes.io/hostname": name}},
		"status": object{"capacity": capacity, "allocatable": capacity, "conditions": []any{object{"type": "Ready", "status": "True"}}}})
	s["nodeResourceTopologies"] = []any{object{"metadata": object{"name": name, "uid": name, "creationTimestamp": "2026-11-22T18:31:00Z"},
		"attributes": []any{object{"name": "topologyManagerPolicy", "value": "restricted"}}, "zones": zones}}
}

// cards returns the groups of waiting pods: their titles, pods, notices, and number of green groups
// of nodes.
const cards = `[...document.querySelectorAll('.card')].map(c => ({
  title: c.querySelector('h2 small').textContent, held: c.querySelector('.notice')?.textContent || '', green: c.querySelectorAll('.groups .admits').length,
  pods: [...c.querySelectorAll('tbody td:first-child')].map(e => e.textContent).sort().join(' '),
}))`

// TestWaitingSaysWhoHolds: pods that a controller holds back are grouped by that controller, and no
// node is green for them, on the page Waiting and on their own pages.
func TestWaitingSaysWhoHolds(t *testing.T) {
	address := berth(t, "--snapshot", held(t))
	b := browse(t, 1280, 900, "light")
	b.open(address, view{"waiting", "#/pending", []string{".card td"}, ""})
	type card struct {
		Title, Held, Pods string
		Green             int
	}
	var got []card
	b.eval(cards, &got)
	for pods, want := range map[string]card{
		"held/gated-0 held/gated-1": {Title: "held back by SchedulingGates", Held: "example.com/quota"},
		"held/claim-0":              {Title: "held back by VolumeBinding", Held: "pod has unbound immediate PersistentVolumeClaims"},
		"held/spread-0":             {Title: "held back by PodTopologySpread", Held: "topology.kubernetes.io/zone"},
		"held/other-0 held/other-1": {Title: "held back by another plugin", Held: "the moon is in the wrong house"},
	} {
		found := false
		for _, c := range got {
			if c.Pods == pods {
				found = true
				if c.Title != want.Title || !strings.Contains(c.Held, want.Held) || !strings.Contains(c.Held, "Do:") || c.Green > 0 {
					t.Errorf("%s: %+v", pods, c)
				}
			}
		}
		if !found {
			t.Errorf("no card of %s in %+v", pods, got)
		}
	}
	for _, c := range got {
		if strings.Contains(c.Title, "Unschedulable") || strings.Contains(c.Title, "nodes are available") {
			t.Errorf("a card has an event's text as title: %+v", c)
		}
	}
	for _, pod := range []string{"gated-0", "claim-0", "spread-0", "other-0"} {
		b.open(address, view{pod, "#/pods/held/" + pod, []string{".notice", ".groups li"}, ""})
		var green int
		b.eval(`document.querySelectorAll('.groups .admits, .notice.good').length`, &green)
		if first := b.text(".notice"); green > 0 || !strings.HasPrefix(first, "Held back by ") {
			t.Errorf("%s: %d green, first %q", pod, green, first)
		}
	}
}

// TestClaimsAreReadLive: the page shows that a pod waits for a missing claim, before a scheduler
// reports it.
func TestClaimsAreReadLive(t *testing.T) {
	s := newAPIServer(t)
	address := berth(t, "--kubeconfig", s.start(t), "--stale-after", "1000000h")
	b := browse(t, 1280, 900, "light")
	b.open(address, views[0])
	b.until("it is live", `document.querySelector('.pulse.alive')`)
	pod := named(t, s.find(t, podsPath, "postgres-0"), "claims")
	pod["metadata"].(object)["uid"] = "claims"
	delete(pod["metadata"].(object), "annotations")
	delete(pod["spec"].(object), "nodeName")
	pod["spec"].(object)["volumes"] = []any{object{"name": "v", "persistentVolumeClaim": object{"claimName": "not-there"}}}
	pod["status"] = object{"phase": "Pending", "qosClass": "Guaranteed"}
	s.tell(t, podsPath, "ADDED", "Pod", pod)
	b.open(address, view{"claims", "#/pods/data/claims", []string{".groups li"}, ""})
	b.until("it is held back", `document.querySelector('.notice')?.textContent.startsWith('Held back by VolumeBinding: there is no PersistentVolumeClaim not-there')`)
}

// cut returns the boxes whose content does not fit, and invisible cells of tables.
const cut = `[...document.querySelectorAll('.scroll, .cell, .needs td, .needs th')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.checkVisibility()).map(e => e.className + ': ' + e.textContent.slice(0, 80))`

// nothingCut checks that no table and no cell is cut or scrolls.
func (b *tab) nothingCut(what string) {
	b.Helper()
	var found []string
	if b.eval(cut, &found); len(found) > 0 {
		b.Errorf("%s: cut: %q", what, found)
	}
}

// TestLongLists: with forty CPUs, with or without strides, all columns of the page Pods fit, and a
// pod's page shows eight NUMA nodes completely.
func TestLongLists(t *testing.T) {
	address := berth(t, "--snapshot", held(t))
	b := browse(t, 1280, 900, "light")
	b.open(address, view{"pods", "#/pods?namespace=held", []string{"table td"}, ""})
	b.fits("pods", 1280)
	b.nothingCut("pods")
	var seen []string
	b.eval(`[...document.querySelectorAll('th')].filter(e => { const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth }).map(e => e.textContent)`, &seen)
	if got := strings.Join(seen, " "); got != "Pod Node State NUMA CPUs Certainty Promise Aligned Age" {
		t.Errorf("columns that are seen: %s", got)
	}
	b.until("CPUs are printed with strides", `[...document.querySelectorAll('td.mono')].some(e => e.textContent === '2-80:1/2')`)
	b.until("CPUs that nobody knows are counted", `[...document.querySelectorAll('td.mono')].some(e => e.textContent === '4 pinned, CPUs unknown')`)
	b.open(address, view{"eight with GPUs", "#/?q=zones", []string{".line .cell"}, ""})
	b.nothingCut("eight cells with GPUs")
	b.until("eight cells say what GPUs are free", `[...document.querySelectorAll('#row-0 .cell')].map(c => [...c.children].filter(e => e.getBoundingClientRect().bottom <= c.getBoundingClientRect().bottom + 1).map(e => e.textContent).join(' ')).join() === '0 27 0 gpu,1 27 1 gpu,2 26 0 gpu,3 25 1 gpu,4 24 0 gpu,5 23 1 gpu,6 22 0 gpu,7 21 1 gpu'`)
	b.shoot("eight-cells-1280-light")
	b.open(address, view{"two and four", "#/pods/held/strided-0", []string{".needs td"}, ""})
	b.nothingCut("two and four")
	b.open(address, view{"eight", "#/pods/held/eight-0", []string{".needs td"}, ""})
	b.fits("eight", 1280)
	b.nothingCut("eight")
	if got := b.text(".needs thead"); !strings.Contains(got, "NUMA 0") || !strings.Contains(got, "NUMA 7") {
		t.Errorf("the panel has %q", got)
	}
}

// TestRefusalOnAPhone: the table of a refusal with two NUMA nodes is completely visible.
func TestRefusalOnAPhone(t *testing.T) {
	address := berth(t, "--snapshot", "testdata/cluster.berth")
	b := browse(t, 390, 844, "light")
	b.open(address, view{"pod", "#/pods/research/train-0", []string{".needs td"}, ""})
	b.nothingCut("two NUMA nodes on a phone")
	b.shoot("refusal-390-light")
}

// TestCellsShowDevices: a cell of CPUs shows how many GPUs are free next to them, and is not cut.
func TestCellsShowDevices(t *testing.T) {
	address := berth(t, "--snapshot", "testdata/cluster.berth")
	for _, width := range []int64{1280, 390} {
		b := browse(t, width, 900, "light")
		b.open(address, view{"cells", "#/?r=cpu&q=gpu", []string{".line .cell .dev"}, ""})
		var texts []string
		b.eval(`[...document.querySelectorAll('.line:not(.head) .cell')].map(c => [...c.children].filter(e => e.getBoundingClientRect().bottom <= c.getBoundingClientRect().bottom + 1).map(e => e.textContent).join(' '))`, &texts)
		if len(texts) != 4 {
			t.Errorf("%d cells, want 2 of each of 2 nodes: %q", len(texts), texts)
		}
		for _, text := range texts {
			if !strings.Contains(text, "/4 gpu") || !strings.Contains(text, "/64") && !strings.Contains(text, "/62") {
				t.Errorf("%q: want CPUs and GPUs", text)
			}
		}
		b.nothingCut(fmt.Sprint("cells at ", width))
	}
}

// TestStrandedLeadsToPlans: a click on a stranded resource leads to a plan for the waiting pod.
func TestStrandedLeadsToPlans(t *testing.T) {
	address := berth(t, "--snapshot", owned(t))
	b := browse(t, 1280, 900, "light")
	b.open(address, view{"stranded", "#/stranded", []string{".makeroom a.ask"}, ""})
	link := `[...document.querySelectorAll('.card')].find(c => c.querySelector('h2').textContent.includes('gpu')).querySelector('.makeroom a.ask')`
	var href string
	b.eval(link+`.getAttribute('href')`, &href)
	at, err := url.Parse(strings.TrimPrefix(href, "#"))
	if err != nil || at.Query().Get("pod") == "" {
		t.Fatalf("the link %q names no pod: %v", href, err)
	}
	b.do("going to the plan", chromedp.Evaluate(link+`.click()`, nil))
	b.until("a plan is shown", `document.querySelector('.room .notice')`)
	_, name, _ := strings.Cut(at.Query().Get("pod"), "/")
	b.until("it is for the pod", fmt.Sprintf(`document.querySelector('.yaml textarea').value.includes('name: %s')`, name))
	b.shoot("plan-1280-light")
}

// TestNothingChanges: the table of before and after reports if nothing changes, and only then.
func TestNothingChanges(t *testing.T) {
	address := berth(t, "--snapshot", "testdata/cluster.berth")
	b := browse(t, 1280, 900, "light")
	const says = `[...document.querySelectorAll('.compared .notice')].some(n => n.textContent.startsWith('Nothing changes.'))`
	for query, want := range map[string]bool{"": true, "?nps=2&reserved=0-3": false} {
		b.open(address, view{"compare", "#/fit" + query, []string{".compared td"}, compare})
		var got bool
		if b.eval(says, &got); got != want {
			t.Errorf("%q: says that nothing changes: %v, want %v", query, got, want)
		}
	}
}

// TestHeldViews saves pictures of the pages with held pods and long lists.
func TestHeldViews(t *testing.T) {
	address := berth(t, "--snapshot", held(t))
	axe, err := os.ReadFile("../../internal/web/page/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make e2e-web installs it", err)
	}
	for _, s := range screens {
		if s.width != 390 && s.width != 1280 {
			continue
		}
		b := browse(t, s.width, 900, s.scheme)
		for _, v := range []view{
			{"held-cluster", "#/", []string{".line [role=rowheader]"}, ""},
			{"held-pods", "#/pods?namespace=held", []string{"table td"}, ""},
			{"held-waiting", "#/pending", []string{".card td"}, ""},
			{"held-stranded", "#/stranded", []string{".card td"}, ""},
			{"held-pod", "#/pods/held/claim-0", []string{".notice", ".groups li"}, ""},
			{"held-eight", "#/pods/held/eight-0", []string{".needs td"}, ""},
			{"held-strided", "#/pods/held/strided-0", []string{"table td", ".stage svg"}, ""},
			{"held-plan", "#/fit?pod=research%2Fbig-gpu-1&room=1", []string{".room .notice"}, ""},
			{"held-unchanged", "#/fit", []string{".compared td"}, compare},
		} {
			b.open(address, v)
			b.shoot(fmt.Sprintf("%s-%d-%s", v.name, s.width, s.scheme))
			b.accessible(string(axe), fmt.Sprintf("%s at %d, %s", v.name, s.width, s.scheme))
			b.fits(v.name, s.width)
		}
	}
}
