package web

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSimulation opens the lab's page on every screen. Nothing is wider than the screen, and axe
// finds no error.
func TestSimulation(t *testing.T) {
	program := os.Getenv("PLAY")
	if program == "" {
		t.Skip("PLAY names no play command of lab/: make e2e-web builds one and calls these tests")
	}
	axe, err := os.ReadFile("../../internal/web/page/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	nodes := "sn,cpu_milli,memory_mib,gpu,model\n"
	for i := range 30 {
		nodes += fmt.Sprintf("n%d,96000,524288,8,\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "nodes.csv"), []byte(nodes), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, load := range map[string][]string{"arrive": {"--arrive", "1.3"}, "load": {"--load", "0.9", "--hours", "6"}} {
		out, err := exec.Command(program, append(load, "--nodes", filepath.Join(dir, "nodes.csv"), "--trace", "synthetic:inference", "--overlay", "quarters/restricted",
			"--strategy", "StockLeast,StockMost,Volcano,KoordinatorMost,KoordinatorLeast,KAI,LeastNUMANodes,KeepCPUs,FirstFit,Berth", "--seeds", "2", "-o", "html")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+".html")
		if err := os.WriteFile(file, out, 0o600); err != nil {
			t.Fatal(err)
		}
		simulationOn(t, "simulate-"+name, file, string(axe))
	}
}

// simulationOn opens the page on every screen.
func simulationOn(t *testing.T, name, file, axe string) {
	for _, s := range []struct {
		width, height int64
		scheme        string
	}{{390, 844, "light"}, {390, 844, "dark"}, {1280, 800, "light"}, {1920, 1080, "dark"}} {
		what := fmt.Sprintf("%s-%d-%s", name, s.width, s.scheme)
		t.Run(what, func(t *testing.T) {
			b := browse(t, s.width, s.height, s.scheme)
			b.do("opening "+file, chromedp.Navigate("file://"+file))
			b.see("footer pre")
			b.fits(what, s.width)
			b.accessible(axe, what)
			b.shoot(what)
		})
	}
}
