package trial

import (
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

// Part is a process that can be killed and started again. It is safe for concurrent use.
type Part struct {
	// Port is the port of a scheduler's metrics.
	Port  int
	start func() (*child.Process, error)

	mu      sync.Mutex
	process *child.Process // nil if it does not run
	started time.Time
	// dying means that it was killed and may not have ended yet.
	dying  bool
	starts int
}

// NewPart returns a part that start starts.
func NewPart(start func() (*child.Process, error)) *Part { return &Part{start: start} }

// Start starts the process.
func (p *Part) Start() error {
	process, err := p.start()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.process, p.started = process, time.Now()
		p.starts++
	}
	return err
}

// Process returns the process; nil if it does not run.
func (p *Part) Process() *child.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

// Kill ends the process at once, if it runs.
func (p *Part) Kill() {
	p.mu.Lock()
	process := p.process
	p.dying = true
	p.mu.Unlock()
	if process != nil {
		process.Kill()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process, p.dying = nil, false
}

// Restart kills the process and starts it again.
func (p *Part) Restart() error {
	p.Kill()
	return p.Start()
}

// Keep restarts the process if it was killed. The error means that it has ended otherwise.
func (p *Part) Keep() error {
	p.mu.Lock()
	process, dying := p.process, p.dying
	p.mu.Unlock()
	switch {
	case dying:
		return nil
	case process != nil:
		return process.Ended()
	}
	return p.Start()
}

// Ended returns an error when the process has ended by itself.
func (p *Part) Ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.dying {
		return nil
	}
	return p.process.Ended()
}

// Since returns the start time of the process; zero if it does not run.
func (p *Part) Since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.dying {
		return time.Time{}
	}
	return p.started
}

// Restarts returns how often the process was restarted.
func (p *Part) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.starts-1)
}
