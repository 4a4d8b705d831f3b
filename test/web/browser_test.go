package web

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// limit bounds one step in the browser.
const limit = 30 * time.Second

// berth starts the command, and returns the address of the page that it serves.
func berth(t testing.TB, args ...string) string {
	t.Helper()
	address, _ := berthProcess(t, args...)
	return address
}

// berthProcess does the same as berth, and also returns the garbage collections of the process.
func berthProcess(t testing.TB, args ...string) (address string, heap *gcTrace) {
	t.Helper()
	program := os.Getenv("BERTH")
	if program == "" {
		t.Skip("BERTH names no berth command: make e2e-web builds one and calls these tests")
	}
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
	collections := &gcTrace{}
	cmd.Stderr = collections
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), " is at ")
	if !ok {
		t.Fatalf("berth said %q: %v", line, err)
	}
	return address, collections
}

// gcTrace reads the garbage collector's lines from the output of a process, and passes on the other
// lines.
type gcTrace struct {
	mu    sync.Mutex
	rest  []byte
	count int
	left  int // smallest heap after a collection, in MiB, since the second collection after begin
	first int // the first collection that counts
}

func (g *gcTrace) Write(data []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest = append(g.rest, data...)
	for {
		line, rest, whole := bytes.Cut(g.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		g.rest = rest
		if m := gcLine.FindSubmatch(line); m != nil {
			g.count++
			if left, err := strconv.Atoi(string(m[1])); err == nil && (g.count == g.first || g.count > g.first && left < g.left) {
				g.left = left
			}
		} else {
			fmt.Fprintf(os.Stderr, "%s\n", line)
		}
	}
}

// gcLine is "gc 7 @1.2s 3%: ... 100->110->60 MB, ...".
var gcLine = regexp.MustCompile(`^gc \d+ @.* \d+->\d+->(\d+) MB`)

// begin starts a new search for the smallest heap, and returns the number of collections. A
// collection in progress does not count.
func (g *gcTrace) begin() (count int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first = g.count + 2
	return g.count
}

// least returns the number of collections, and the smallest heap after a collection, in MiB.
func (g *gcTrace) least() (count, left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count, g.left
}

// tab is a page in a browser, with its errors.
type tab struct {
	testing.TB
	ctx    context.Context
	faults []string
}

// browse opens a browser with one tab of that size, in light or dark mode.
func browse(t testing.TB, width, height int64, scheme string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(int(width), int(height)))
	if path := os.Getenv("CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &tab{TB: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.faults = append(b.faults, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				b.faults = append(b.faults, fmt.Sprint(e.Args))
			}
		}
	})
	// The first Run starts the browser, which ends with its context. So this context has no
	// deadline.
	if err := chromedp.Run(ctx, emulation.SetDeviceMetricsOverride(width, height, 1, false), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range b.faults {
			t.Errorf("the page complains: %s", f)
		}
	})
	return b
}

// do carries out steps, each within limit.
func (b *tab) do(what string, steps ...chromedp.Action) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	if err := chromedp.Run(ctx, steps...); err != nil {
		b.shoot("failed")
		b.Fatalf("%s: %v", what, err)
	}
}

// see waits for an element.
func (b *tab) see(selector string) {
	b.Helper()
	b.do("waiting for "+selector, chromedp.WaitVisible(selector, chromedp.ByQuery))
}

// text reads an element.
func (b *tab) text(selector string) (text string) {
	b.Helper()
	b.do("reading "+selector, chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

// eval evaluates JavaScript, without the page's content security policy.
func (b *tab) eval(script string, into any) {
	b.Helper()
	b.do("evaluating "+script[:min(len(script), 60)], chromedp.Evaluate(script, into, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// artifacts returns the folder for pictures.
func artifacts(t testing.TB) string {
	dir := os.Getenv("ARTIFACTS")
	if dir == "" {
		return t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shoot saves a picture of the tab, with the page's height up to a limit.
func (b *tab) shoot(name string) {
	b.Helper()
	const highest = 16000 // pixels that Chromium draws at a time
	var height int64
	var data []byte
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Evaluate("document.documentElement.scrollHeight", &height), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		data, err = page.CaptureScreenshot().WithCaptureBeyondViewport(height < highest).Do(ctx)
		return err
	}))
	if err == nil {
		err = os.WriteFile(filepath.Join(artifacts(b), name+".png"), data, 0o644)
	}
	if err != nil {
		b.Errorf("picture %s: %v", name, err)
	}
}
