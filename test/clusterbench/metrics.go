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

// by returns the values of a metric by the values of the labels, each divided by divisor.
func (m metrics) by(name string, divisor float64, labels ...string) map[string]float64 {
	out := map[string]float64{}
	for series, v := range m {
		base, rest, _ := strings.Cut(series, "{")
		if base != name {
			continue
		}
		var key []string
		for _, l := range labels {
			if value := label(rest, l); value != "" {
				key = append(key, value)
			}
		}
		out[strings.Join(key, " ")] += v / divisor
	}
	return out
}

// requests returns the API server's answers per pod between two scrapes, by verb, resource and
// subresource, and by code for failures; without watches and Leases.
func requests(before, after metrics, pods int) map[string]float64 {
	out := map[string]float64{}
	for series, v := range after {
		base, labels, _ := strings.Cut(series, "{")
		if base != "apiserver_request_total" {
			continue
		}
		what := label(labels, "verb") + " " + label(labels, "resource")
		if part := label(labels, "subresource"); part != "" {
			what += "/" + part
		}
		if code := label(labels, "code"); code >= "400" {
			what += " " + code
		}
		more := v - before[series]
		if more == 0 || label(labels, "verb") == "WATCH" || label(labels, "resource") == "leases" || label(labels, "resource") == "" {
			continue
		}
		out[what] += more / float64(max(1, pods))
	}
	return out
}

// label returns the value of a label in the text between braces; "" if it is missing.
func label(labels, name string) string {
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// loadAverage returns the machine's load averages.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
