package main

import (
	"os"
	"strconv"
	"strings"
)

// metrics is a scrape in Prometheus' text format: values by series, labels included.
type metrics map[string]float64

func parseMetrics(text []byte) metrics {
	m := metrics{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			m[line[:at]] = v
		}
	}
	return m
}

// sum adds up the series of a name that carry all the labels, each written name="value".
func (m metrics) sum(name string, labels ...string) (total float64) {
next:
	for series, v := range m {
		base, rest, _ := strings.Cut(series, "{")
		if base != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue next
			}
		}
		total += v
	}
	return total
}

// loadAverage returns the three figures of the machine.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
