package cli

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal. What is written to the first file can be read from the second.
func terminal(t *testing.T) (shown, seen *os.File) {
	t.Helper()
	seen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { seen.Close() })
	if err := unix.IoctlSetPointerInt(int(seen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(seen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("no terminals here:", err)
	}
	return shown, seen
}

// TestColours: the output has colors only on a terminal, and only if the user has not disabled
// them.
func TestColours(t *testing.T) {
	w := smallWorld(t)
	file := w.kubeconfig()
	ask := func(out io.Writer) {
		t.Helper()
		var stderr bytes.Buffer
		if code := Run(t.Context(), []string{"berth", "nodes", "--kubeconfig", file}, strings.NewReader(""), out, &stderr); code != ExitOK {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
	}
	onTerminal := func() string {
		t.Helper()
		shown, seen := terminal(t)
		ask(shown)
		shown.Close()
		text, _ := io.ReadAll(seen) // returns an error because the other end is closed
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	var plain bytes.Buffer
	ask(&plain)
	if strings.Contains(plain.String(), "\x1b") {
		t.Errorf("colours in a file: %q", plain.String())
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	coloured := onTerminal()
	if !strings.Contains(coloured, "\x1b[32mReady\x1b[0m") {
		t.Errorf("Ready is not green on a terminal: %q", coloured)
	}
	if got := strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "").Replace(coloured); got != plain.String() {
		t.Errorf("but for colours, a terminal shows\n%s\nand a file has\n%s", got, plain.String())
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if got := onTerminal(); got != plain.String() {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestNoHeaders(t *testing.T) {
	w := smallWorld(t)
	w.addNode("n3", 0) // it has no report, so that it is below the table
	for verb, want := range map[string]int{"nodes": 3, "pods": 1} {
		code, out, stderr := run(t, verb, "--no-headers", "--kubeconfig", w.kubeconfig())
		if lines := strings.Count(out, "\n"); code != ExitOK || lines != want || strings.Contains(out, "STATUS") || strings.Contains(out, "STATE") {
			t.Errorf("%s: exit code %d, stderr %q, want %d rows and nothing else, got\n%s", verb, code, stderr, want, out)
		}
	}
	v := watch(t, w, "pods", "-w", "--no-headers")
	if first := v.line("first"); strings.Contains(first, "STATE") {
		t.Errorf("got %q", first)
	}
	v.end()
}
