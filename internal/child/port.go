package child

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// The ports are below the range from which Linux chooses ports for clients (ip_local_port_range
// begins at 32768, ip(7)). So while a server is down, no connection of another program uses its
// port, and no client that tries to reach the server connects to itself.
const firstPort, ports = 20000, 32768 - 20000

// begin is the first port that this process tries. It is random, because other processes also
// search for ports. tried is the number of attempts.
var (
	begin = rand.Uint32N(ports)
	tried atomic.Uint32
)

// Listen listens on a free port of 127.0.0.1. Each call uses a different port.
func Listen() (net.Listener, error) {
	var last error
	for range ports {
		l, err := net.Listen("tcp4", fmt.Sprint("127.0.0.1:", firstPort+(begin+tried.Add(1))%ports))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no port from %d to %d is free: %w", firstPort, firstPort+ports-1, last)
}

// FreePort returns a free port of 127.0.0.1. Each call returns a different port.
func FreePort() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
