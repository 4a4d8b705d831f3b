package demo

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

// Names of the parts of a playground. For agents and nodes the node's name follows.
const (
	schedulerPart = "scheduler"
	agentPart     = "agent"
	nodePart      = "node"
	apiPart       = "api"
)

// part is a process of the cluster that can be started again.
type part struct {
	name    string
	start   func() (*child.Process, error)
	process *child.Process
	metrics string // where Prometheus reads what it counts; "" for nowhere

	begun  time.Time
	logged int64 // the size of the log when the process was started
	broken bool  // it is away until it is mended
	deaths int   // one after the other, none of them long after its start
}

// up starts the process.
func (p *part) up() error {
	process, err := p.start()
	if err != nil {
		return err
	}
	p.is(process)
	return nil
}

// is takes a process that has just been started for the part's.
func (p *part) is(process *child.Process) {
	p.process, p.begun, p.logged = process, time.Now(), 0
	if info, err := os.Stat(process.Log); err == nil {
		p.logged = info.Size()
	}
}

func (p *part) stop() error { return p.process.Stop() }

// runs reports whether the process has not ended.
func (p *part) runs() bool {
	select {
	case <-p.process.Done():
		return false
	default:
		return true
	}
}

// leads reports whether a scheduler leads. A scheduler that loses the lease ends
// (cmd/kube-scheduler/app/server.go, OnStoppedLeading).
func (p *part) leads() bool { return p.runs() && p.says("Successfully acquired lease") }

// says reports whether the process has logged the message, in the format of Kubernetes' programs.
func (p *part) says(message string) bool {
	log, err := os.ReadFile(p.process.Log)
	return err == nil && int64(len(log)) > p.logged && bytes.Contains(log[p.logged:], []byte(strconv.Quote(message)))
}
