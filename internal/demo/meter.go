package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/internal/cli/table"
)

// meter shows the progress of a run: on a terminal in one line that changes, otherwise in a new
// line every logInterval.
type meter struct {
	w     io.Writer
	title string
	// columns is the width of the terminal, or 0 if the output is not a terminal.
	columns int
	shown   time.Time
	// open means that the changing line has been written but has no newline yet.
	open bool
}

// The shortest time between two outputs of the state.
const (
	terminalInterval = 200 * time.Millisecond
	logInterval      = 15 * time.Second
)

func newMeter(w io.Writer, title string) *meter {
	_, columns, _ := table.Size(w)
	return &meter{w: w, title: title, columns: columns, shown: time.Now()}
}

// line writes a line that is not replaced.
func (m *meter) line(format string, args ...any) {
	if m.open {
		fmt.Fprintln(m.w)
		m.open = false
	}
	fmt.Fprintf(m.w, "%s: %s\n", m.title, fmt.Sprintf(format, args...))
}

// show prints the state of a run. It has the type Progress.
func (m *meter) show(elapsed time.Duration, r *Report, pending int) {
	interval := logInterval
	if m.columns > 0 {
		interval = terminalInterval
	}
	if time.Since(m.shown) < interval {
		return
	}
	m.shown = time.Now()
	if m.columns == 0 {
		m.line("%s", state(elapsed, r, pending))
		return
	}
	text := m.title + ": " + state(elapsed, r, pending)
	fmt.Fprintf(m.w, "\r%s\x1b[K", text[:min(len(text), m.columns-1)])
	m.open = true
}

// The method last replaces the changing line with the result of the run.
func (m *meter) last(elapsed time.Duration, r *Report) {
	if m.open {
		fmt.Fprint(m.w, "\r\x1b[K")
		m.open = false
	}
	m.line("%s", state(elapsed, r, r.Pending))
}

func state(elapsed time.Duration, r *Report, pending int) string {
	return fmt.Sprintf("%3.0f s: %d created, %d ran, %d waiting, %d refused, %d wrong", elapsed.Seconds(), r.Pods, r.Running, pending, r.Refused(), r.Mispredicted)
}
