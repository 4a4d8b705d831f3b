package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func navigate(address string) chromedp.Action { return chromedp.Navigate(address) }

func scrollTo(y int) chromedp.Action {
	return chromedp.Evaluate(fmt.Sprintf("scrollTo(0, %d)", y), nil)
}

// until waits for a condition of the page.
func (b *tab) until(what, condition string) {
	b.Helper()
	b.do(what, chromedp.Poll(condition, nil, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(limit)))
}

// press types keys into the focused element.
func (b *tab) press(keys string) {
	b.Helper()
	b.do("pressing "+keys, chromedp.KeyEvent(keys))
}

// TestByKeyboardAlone uses every view without a mouse.
func TestByKeyboardAlone(t *testing.T) {
	address := berth(t, "--snapshot", "testdata/cluster.berth")
	b := browse(t, 1280, 900, "light")
	b.open(address, views[0])
	b.do("pressing /", input.DispatchKeyEvent(input.KeyRawDown).WithKey("/"), input.DispatchKeyEvent(input.KeyUp).WithKey("/")) // KeyEvent would also type the character
	b.until("the filter has the focus", `document.activeElement.id === 'filter'`)
	b.press("gpu")
	b.until("two nodes are left", `document.querySelectorAll('.line:not(.head)').length === 2 && location.hash.includes('q=gpu')`)
	b.press(kb.Escape)
	b.until("no line is chosen before somebody chooses one", `!document.querySelector('.line.here')`)
	b.press(kb.ArrowDown)
	b.until("the first line is chosen at once", `document.querySelector('.line.here').id === 'row-0'`)
	b.press(kb.ArrowDown)
	b.until("the second line is chosen", `document.querySelector('.line.here').id === 'row-1'`)
	b.press(kb.Enter)
	b.until("its node is shown", `location.hash === '#/nodes/gpu-2' && document.querySelector('.stage svg')`)
	b.do("going to a pod", chromedp.Focus(".berths-list a", chromedp.ByQuery))
	b.until("its berth is lit", `document.querySelectorAll('.stage .lit').length > 10 && document.querySelector('.stage.focus')`)
	b.shoot("lit-1280-light")
	b.press(kb.Enter)
	b.until("the pod is shown", `location.hash.startsWith('#/pods/') && document.querySelector('.asks li')`)
	for key, want := range map[string]string{"w": "#/pending", "p": "#/pods", "f": "#/fit", "s": "#/stranded", "c": "#/"} {
		b.press(key)
		b.until("after "+key, fmt.Sprintf("location.hash === %q", want))
	}
	b.press("?")
	b.until("the keys are shown", `document.querySelector('dialog').open`)
	b.shoot("keys-1280-light")
	b.press(kb.Escape)
	b.until("the keys are gone", `!document.querySelector('dialog').open`)
}

// TestClicks filters, sorts and follows links with a mouse.
func TestClicks(t *testing.T) {
	address := berth(t, "--snapshot", "testdata/cluster.berth")
	b := browse(t, 1280, 900, "dark")
	b.open(address, view{"gpus", "#/?r=nvidia.com%2Fgpu&sort=free", []string{".line [role=rowheader]"}, ""})
	b.until("the node with most free GPUs is first", `document.querySelector('#row-0').textContent.startsWith('gpu-')`)
	b.until("nodes without GPUs are last", `[...document.querySelectorAll('.line:not(.head)')].map(l => l.querySelectorAll('.cell.none').length > 0).join() === 'false,false,true,true,true,true'`)
	b.open(address, view{"ids", "#/?r=nvidia.com%2Fgpu", []string{".line [role=rowheader]"}, ""})
	b.until("nodes without GPUs are last by name, too", `document.querySelector('#row-0').textContent.startsWith('gpu-1') && document.querySelector('#row-2').textContent.startsWith('epyc-1')`)
	b.until("cells say of which NUMA node they are", `[...document.querySelectorAll('#row-0 .cell')].map(c => c.querySelector('i').textContent).join() === '0,1'`)
	b.until("the legend is seen whole", `document.querySelector('.scale').getBoundingClientRect().right <= document.querySelector('.line.head').getBoundingClientRect().right`)
	b.do("opening a node by its line", chromedp.Click("#row-0 .cell", chromedp.ByQuery))
	b.until("the node of the line is shown", `location.hash === '#/nodes/gpu-1'`)
	b.open(address, view{"pool", "#/?pool=cpu", []string{".line [role=rowheader]"}, ""})
	if got := b.text(".count"); got != "3 of 6 nodes" {
		t.Errorf("the pool cpu: %q", got)
	}
	b.do("opening a node", chromedp.Click("#row-0 a", chromedp.ByQuery))
	b.until("the node is shown", `document.querySelector('.stage svg [data-pod]')`)
	b.do("opening a pod from the drawing", chromedp.Evaluate(`document.querySelector('.stage [data-pod] rect.own').dispatchEvent(new MouseEvent('click', {bubbles: true}))`, nil))
	b.until("its pod is shown", `location.hash.startsWith('#/pods/')`)
	if title := b.text("h1"); !strings.Contains(title, "/") {
		t.Errorf("the pod's title is %q", title)
	}
}

// TestWhatIf asks about a pasted pod, changes a setting, and reads the error of a wrong pod.
func TestWhatIf(t *testing.T) {
	address := berth(t, "--snapshot", "testdata/cluster.berth")
	b := browse(t, 1280, 900, "light")
	b.open(address, view{"what if", "#/fit", []string{".yaml textarea"}, ""})
	paste := func(yaml string) {
		b.do("pasting", chromedp.SetValue(".yaml textarea", yaml, chromedp.ByQuery), chromedp.Click(".fit-form button", chromedp.ByQuery))
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: wide}\nspec: {containers: [{name: main, image: wide, resources: {limits: {cpu: '70', memory: 1Gi, nvidia.com/gpu: '1'}}}]}"
	paste(pod)
	b.until("no node takes it", `document.querySelector('.fitted .notice.bad')?.textContent.includes('No node takes it now')`)
	b.until("NUMA nodes are told", `document.querySelector('.fitted .refusal td.short')`)
	b.open(address, view{"what if", "#/fit?nps=1&policy=none&empty=1", []string{".yaml textarea"}, submit})
	b.until("with another policy it fits", `document.querySelector('.fitted .notice.good')?.textContent.includes('finds a place')`)
	b.open(address, view{"waiting", "#/pending", []string{".card .ask"}, ""})
	b.do("asking about a pod that waits", chromedp.Evaluate(`[...document.querySelectorAll('.ask')].find(a => a.href.includes('wide-0')).click()`, nil))
	b.until("the question is about it", `document.querySelector('.yaml textarea')?.value.includes('name: wide-0') && document.querySelector('.fitted h2')?.textContent.includes('wide-0')`)
	paste("kind: Pod\napiVersion: v1\nmetadata: {name: <img src=x onerror=alert(1)>}")
	b.until("what is wrong is told", `document.querySelector('.notice.bad')?.textContent.includes('want')`)
}

// TestLive: changes of the cluster appear on the page without user input.
func TestLive(t *testing.T) {
	s := newAPIServer(t)
	address := berth(t, "--kubeconfig", s.start(t), "--stale-after", "1000000h")
	b := browse(t, 1280, 900, "light")
	b.open(address, views[0])
	b.until("it is live", `document.querySelector('.pulse.alive')`)
	pod := named(t, s.find(t, podsPath, "upf-0"), "late")
	pod["metadata"].(object)["uid"] = "late"
	delete(pod["metadata"].(object), "annotations")
	s.tell(t, podsPath, "ADDED", "Pod", pod)
	b.until("a pod is on its way", `[...document.querySelectorAll('.line')].some(l => l.textContent.startsWith('gpu-1') && l.querySelector('b')?.textContent === '+1')`)
	b.shoot("live-1280-light")
	s.tell(t, podsPath, "DELETED", "Pod", pod)
	b.until("it is gone", `![...document.querySelectorAll('.line')].some(l => l.querySelector('b'))`)
	node := named(t, s.find(t, nodesPath, "xeon-1"), "xeon-1")
	node["spec"] = object{"unschedulable": true}
	s.tell(t, nodesPath, "MODIFIED", "Node", node)
	b.until("the node is cordoned", `[...document.querySelectorAll('.line')].some(l => l.textContent.startsWith('xeon-1') && l.textContent.includes('Cordoned'))`)
	s.tell(t, nodesPath, "DELETED", "Node", node)
	b.until("the node's report is a stray", `[...document.querySelectorAll('.line.bad')].some(l => l.textContent.startsWith('xeon-1'))`)
}

// TestAPIServerAway: while the API server is away, the page shows the age of its data, and no node
// counts as silent. When the API server is back, the page is live again.
func TestAPIServerAway(t *testing.T) {
	s := newAPIServer(t)
	address := berth(t, "--kubeconfig", s.start(t), "--stale-after", "1000000h")
	b := browse(t, 1280, 900, "light")
	b.open(address, views[0])
	b.until("it is live", `document.querySelector('.pulse.alive')`)
	s.goAway()
	b.until("it says how old it is", `/^[0-9]+s old$/.test(document.querySelector('.pulse.dead')?.textContent)`)
	b.until("it says what is not known, and since when", `(t => t?.includes('The API server does not answer') && t.includes('pods') && t.includes('heartbeats of agents') && /as of [0-9:]{8}[.]/.test(t))(document.querySelector('.notice[role=alert]')?.textContent)`)
	b.until("it grows older", `Number(document.querySelector('.pulse.dead').textContent.match(/[0-9]+/)[0]) > 3`)
	b.until("nodes are as they were", `document.querySelectorAll('.line.good').length > 0 && !document.querySelector('.line.bad')`)
	b.shoot("away-1280-light")
	s.away.Store(false)
	b.do("waiting until it is live again", chromedp.Poll(`document.querySelector('.pulse.alive') && !document.querySelector('.notice[role=alert]')`, nil, chromedp.WithPollingTimeout(0)))
}

// TestPodsPageByPage filters and sorts the list of pods, and goes to its next page.
func TestPodsPageByPage(t *testing.T) {
	address := berth(t, "--snapshot", changed(t, func(s object) {
		all := s["pods"].([]any)
		for i := range 250 {
			one := named(t, all[0].(object), fmt.Sprintf("copy-%03d", i))
			one["metadata"].(object)["uid"] = fmt.Sprint("copy-", i)
			delete(one["spec"].(object), "nodeName")
			one["status"] = object{"phase": "Pending"}
			all = append(all, one)
		}
		s["pods"] = all
	}))
	b := browse(t, 1280, 900, "light")
	b.open(address, view{"pods", "#/pods?kind=exact", []string{"table td"}, ""})
	b.until("each has its NUMA node", `[...document.querySelectorAll('td[data-label=NUMA]')].every(td => /^[0-9]/.test(td.textContent)) && [...document.querySelectorAll('td[data-label=Certainty]')].every(td => td.textContent === 'exact')`)
	b.open(address, view{"pods", "#/pods", []string{".pages"}, ""})
	first := b.text("tbody td")
	b.do("going on", chromedp.Click(".pages button:last-child", chromedp.ByQuery))
	b.until("the next page is shown", fmt.Sprintf(`location.hash.includes('from=200') && document.querySelector('tbody td')?.textContent && document.querySelector('tbody td').textContent !== %q && document.querySelector('.pages')?.textContent.includes('201 to ')`, first))
	b.do("searching", chromedp.SendKeys("#filter", "copy-007", chromedp.ByQuery))
	b.until("one is left, on the first page", `document.querySelectorAll('tbody tr').length === 1 && !location.hash.includes('from')`)
}
