package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Delay is what pods spent on one cause until they were bound.
type Delay struct {
	// Pods is how many are counted, Seconds the sum over all of them.
	Pods    int     `json:"pods"`
	Seconds float64 `json:"seconds"`
	// Within is a histogram, ascending. Pods that spent longer than its last bound are not in it.
	Within []Within `json:"within"`
}

// Within is how many pods spent at most so many seconds.
type Within struct {
	Seconds float64 `json:"seconds"`
	Pods    int     `json:"pods"`
}

// over is how many pods spent more than so many seconds, one of the histogram's bounds.
func (d Delay) over(seconds float64) int {
	for _, b := range d.Within {
		if b.Seconds >= seconds {
			return d.Pods - b.Pods
		}
	}
	return 0
}

// delayCauses are the values of the metric's label, in words.
var delayCauses = []struct{ label, words string }{
	{"queue", "others came first"},
	{"attempt", "being tried"},
	{"report", "a node had to report first"},
	{"mates", "others of its gang were not ready"},
	{"room", "no node took it"},
	{"backoff", "something else failed"},
	{"binding", "from the choice of a node on"},
}

// delayBounds are the bounds of the histogram that a person is told, in seconds.
var delayBounds = []float64{0.256, 1.024, 4.096}

// writeDelays writes where the time of pods went until they were bound, of several runs the median
// with the least and the greatest.
func writeDelays(w io.Writer, runs []*Report) error {
	if !slices.ContainsFunc(runs, func(r *Report) bool { return len(r.Delays) > 0 }) {
		return nil
	}
	header := []string{"", "seconds of all"}
	for _, bound := range delayBounds {
		header = append(header, fmt.Sprintf("pods over %.2g s", bound))
	}
	rows := [][]string{header}
	for _, c := range delayCauses {
		all := figure{of: func(r *Report) float64 { return r.Delays[c.label].Seconds }, digits: 1}
		row := []string{c.words, all.text(runs)}
		for _, bound := range delayBounds {
			over := figure{of: func(r *Report) float64 { return float64(r.Delays[c.label].over(bound)) }}
			row = append(row, over.text(runs))
		}
		rows = append(rows, row)
	}
	if _, err := fmt.Fprintf(w, "\nWhat pods that could be pinned waited for under %s until they were bound:\n", Berth{}.Title()); err != nil {
		return err
	}
	return writeRows(w, rows)
}

// scrapeLimit bounds how long the scheduler may take to tell its metrics.
const scrapeLimit = 10 * time.Second

// delays asks the scheduler where the time of pods went.
func (c *Cluster) delays(ctx context.Context) (map[string]Delay, error) {
	if c.schedulers[0].metrics == "" {
		return nil, nil
	}
	text, err := scrape(ctx, c.schedulers[0].metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics of the scheduler: %w", err)
	}
	return readDelays(text)
}

// scrape gets the metrics of a scheduler, which signs its certificate itself.
func scrape(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Timeout: scrapeLimit, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(answer.Status)
	}
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// delaySeries is a line of the histogram: the number of pods, the sum, or a bucket with its bound.
var delaySeries = regexp.MustCompile(`^berth_scheduler_pod_delay_seconds_(count|sum|bucket)\{cause="(\w+)"(?:,le="([^"]+)")?\} (\S+)$`)

// readDelays reads the histogram in Prometheus' text format, in which buckets ascend.
func readDelays(text string) (map[string]Delay, error) {
	out := map[string]Delay{}
	for line := range strings.Lines(text) {
		m := delaySeries.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		value, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of the scheduler: %q: want a number at its end", line)
		}
		d := out[m[2]]
		switch m[1] {
		case "count":
			d.Pods = int(value)
		case "sum":
			d.Seconds = value
		case "bucket":
			bound, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				return nil, fmt.Errorf("metrics of the scheduler: %q: want a number as le", line)
			}
			if !math.IsInf(bound, 1) {
				d.Within = append(d.Within, Within{bound, int(value)})
			}
		}
		out[m[2]] = d
	}
	return out, nil
}
