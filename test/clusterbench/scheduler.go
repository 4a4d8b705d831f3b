package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/test/usage"
)

// contestant is a scheduler to be measured.
type contestant string

const (
	stock contestant = "stock"
	berth contestant = "berth"
)

// sched is a running scheduler.
type sched struct {
	*child.Process
	port int
	http *http.Client
}

type configure struct {
	who        contestant
	kubeconfig string
	profile    string
	heartbeat  time.Duration
}

// configuration returns the configuration of a contestant; both differ only in the plugin. They
// have the generous client limits of Berth's own configuration. Except with profileStock they have
// the chart's arguments of other plugins, which allow opportunistic batching. Reports are valid for
// four heartbeats.
func configuration(o configure) ([]byte, error) {
	args := scheduler.Args{StaleAfter: metav1.Duration{Duration: max(time.Minute, 4*o.heartbeat)}}
	text, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: o.kubeconfig, Args: &args})
	if err != nil {
		return nil, err
	}
	var c map[string]any
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	profile := c["profiles"].([]any)[0].(map[string]any)
	if o.who == stock {
		delete(profile, "plugins")
		delete(profile, "pluginConfig")
	}
	if o.profile != profileStock {
		plugins, _ := profile["pluginConfig"].([]any)
		profile["pluginConfig"] = append(plugins,
			map[string]any{"name": "PodTopologySpread", "args": map[string]any{"defaultingType": "List", "defaultConstraints": []any{}}},
			map[string]any{"name": "InterPodAffinity", "args": map[string]any{"ignorePreferredTermsOfExistingPods": true}})
	}
	c["leaderElection"] = map[string]any{"leaderElect": true, "leaseDuration": "120s", "renewDeadline": "100s", "retryPeriod": "500ms",
		"resourceLock": "leases", "resourceName": leaseName, "resourceNamespace": metav1.NamespaceSystem}
	return yaml.Marshal(c)
}

// get reads a path of the scheduler's own server.
func (s *sched) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", s.port, path), nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", path, resp.Status, body)
	}
	return body, err
}

func (s *sched) metrics(ctx context.Context) (metrics, error) {
	text, err := s.get(ctx, "/metrics")
	return parseMetrics(text), err
}

// settle waits until the scheduler has read the cluster and is idle: it serves requests, and uses
// little processor time for a while.
func (s *sched) settle(ctx context.Context) error {
	const little = 250 * time.Millisecond // per second
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	last, calm, synced := usage.CPU(s.Process), 0, false
	for range 180 {
		select {
		case <-clock.C:
		case <-s.Done():
			return s.Ended()
		case <-ctx.Done():
			return ctx.Err()
		}
		now := usage.CPU(s.Process)
		if !synced {
			_, err := s.get(ctx, "/readyz?exclude=leaderElection")
			synced = err == nil
		}
		if calm++; now-last > little || !synced {
			calm = 0
		}
		if last = now; calm == 3 {
			return nil
		}
	}
	return fmt.Errorf("%s: has not read the cluster after 3m", s.Name)
}

// leaseName is the name of the schedulers' Lease.
const leaseName = "kube-scheduler"

// inTurn returns both schedulers in the order of the i-th pair: A B, B A, A B, ..., so that the
// order favours neither.
func inTurn(i int) []contestant {
	if i%2 == 1 {
		return []contestant{berth, stock}
	}
	return []contestant{stock, berth}
}
