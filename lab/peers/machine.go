package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is USER_HZ, the unit of CPU times in /proc: 1/100 s on every architecture that Go
// supports.
const clockTick = 10 * time.Millisecond

// cpuOf returns the CPU time, user and system, of the child of this process that has the argument
// in its command line (proc_pid_stat(5)).
func cpuOf(argument string) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		command, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || !bytes.Contains(append([]byte{0}, command...), []byte("\x00"+argument+"\x00")) {
			continue // the process has ended, or is not the child
		}
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the third field is the first of these
		if len(fields) < 13 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		user, err1 := strconv.Atoi(fields[11])
		system, err2 := strconv.Atoi(fields[12])
		if err1 != nil || err2 != nil {
			return 0, fmt.Errorf("%s: %q: want numbers as utime and stime", file, stat)
		}
		return time.Duration(user+system) * clockTick, nil
	}
	return 0, fmt.Errorf("no child with the argument %s", argument)
}

// loadAverage returns the load average of the last minute; 0 if it is unknown.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
