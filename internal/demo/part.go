package demo

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

// Names of the parts of a playground. The names of agents and nodes end with the node's name.
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
	metrics string // the address of its metrics for Prometheus, or ""

	begun  time.Time
	logged int64 // the size of the log when the process was started
	broken bool  // the user has broken it and has not mended it yet
	deaths int   // consecutive deaths, each soon after a start
}

func (p *part) up() error {
	process, err := p.start()
	if err != nil {
		return err
	}
	p.is(process)
	return nil
}

// The method is records that a process that has just been started is the part's process.
func (p *part) is(process *child.Process) {
	p.process, p.begun, p.logged = process, time.Now(), 0
	if info, err := os.Stat(process.Log); err == nil {
		p.logged = info.Size()
	}
}

func (p *part) stop() error { return p.process.Stop() }

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

// The method says reports whether the process has logged the message, in the format of Kubernetes'
// programs.
func (p *part) says(message string) bool {
	log, err := os.ReadFile(p.process.Log)
	return err == nil && int64(len(log)) > p.logged && bytes.Contains(log[p.logged:], []byte(strconv.Quote(message)))
}
