// Package usage measures the CPU time and the memory of a process.
package usage

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/child"
)

// CPU returns the processor time that the process has used, user and system; 0 once it has ended.
func CPU(p *child.Process) time.Duration {
	const tick = time.Second / 100 // USER_HZ
	fields := fieldsOf(p, "stat", ") ")
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// fieldsOf returns the words after a text in a file of /proc/PID. It returns none if the process
// has ended.
func fieldsOf(p *child.Process, file, after string) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID(), file))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), after)
	return strings.Fields(rest)
}

// Memory returns a line of /proc/PID/status in bytes, 0 once the process has ended: VmHWM is the
// peak of the resident set, VmRSS its current size.
func Memory(p *child.Process, line string) int64 {
	fields := fieldsOf(p, "status", line+":")
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10
}
