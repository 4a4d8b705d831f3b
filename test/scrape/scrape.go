// Package scrape reads the metrics of a scheduler.
package scrape

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// prefix is the prefix of Berth's metrics.
const prefix = "berth_scheduler_"

// Scheduler returns Berth's metrics of the scheduler that listens on the port of this machine, by
// name with labels.
func Scheduler(port int) (map[string]float64, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", port))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s %w", resp.Status, err)
	}
	out := map[string]float64{}
	for line := range bytes.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
		if !ok || !strings.HasPrefix(name, prefix) {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = v
		}
	}
	return out, nil
}

// Held are the gauges of pods that wait, or for which a scheduler holds resources.
var Held = []string{prefix + "in_flight_pods", prefix + "ending_pods", prefix + "waiting_pods"}

// Left returns the gauges that are not 0; "" if all are 0.
func Left(m map[string]float64, gauges ...string) string {
	if len(m) == 0 {
		return "the scheduler has no metrics"
	}
	var left []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] != 0 && slices.ContainsFunc(gauges, func(g string) bool { return strings.HasPrefix(name, g) }) {
			left = append(left, fmt.Sprintf("%s is %v", name, m[name]))
		}
	}
	return strings.Join(left, ", ")
}
