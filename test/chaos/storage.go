package main

import (
	"errors"
	"net"
	"sync"
	"time"
)

// storageLine is a proxy between the API server and etcd. It forwards bytes, and can be slow or be
// cut.
type storageLine struct {
	listener net.Listener
	target   string // a unix socket

	mu     sync.Mutex
	conns  map[net.Conn]bool
	late   bool
	struck int
}

// newStorageLine listens on one unix socket and forwards to the other.
func newStorageLine(socket, target string) (*storageLine, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	s := &storageLine{listener: l, target: target, conns: map[net.Conn]bool{}}
	go s.serve()
	return s, nil
}

func (s *storageLine) serve() {
	for {
		near, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			panic(err) // impossible: nothing else closes the listener
		}
		go s.connect(near)
	}
}

func (s *storageLine) connect(near net.Conn) {
	far, err := net.Dial("unix", s.target)
	if err != nil {
		near.Close()
		return
	}
	s.mu.Lock()
	s.conns[near], s.conns[far] = true, true
	s.mu.Unlock()
	go s.pass(near, far)
	go s.pass(far, near)
}

// slowness is the delay in each direction.
const slowness = 150 * time.Millisecond

// pass forwards data until either connection ends.
func (s *storageLine) pass(from, to net.Conn) {
	defer s.end(from, to)
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if s.isLate() {
			time.Sleep(slowness) // the fault itself
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (s *storageLine) end(conns ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(s.conns, c)
	}
}

func (s *storageLine) isLate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late {
		s.struck++
	}
	return s.late
}

// set implements way; Late is the only fault that it supports.
func (s *storageLine) set(f Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = f == Late
}

// cut implements way.
func (s *storageLine) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
	s.struck++
}

// hits implements way.
func (s *storageLine) hits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.struck
}

// close implements way.
func (s *storageLine) close() {
	s.listener.Close()
	s.cut()
}
