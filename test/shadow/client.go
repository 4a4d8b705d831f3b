package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/shadow"
)

// client asks shadow mode.
type client struct{ url string }

func (c client) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, data)
	}
	return data, err
}

// ready waits until it has read the cluster.
func (c client) ready(ctx context.Context, p *child.Process) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := c.get(ctx, "/readyz")
		return err == nil, p.Ended()
	})
	if err != nil {
		return fmt.Errorf("shadow mode: %w: %s", err, p.LogTail(1000))
	}
	return nil
}

// settled returns what it has found when no pod waits for an answer any more, or patience is over.
func (c client) settled() (v shadow.View, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		data, err := c.get(ctx, "/shadow")
		if err != nil {
			return false, nil // asked again until the limit
		}
		v = shadow.View{}
		return json.Unmarshal(data, &v) == nil && v.Open == 0, nil
	})
	if wait.Interrupted(err) && v.Total.Pods > 0 {
		return v, nil
	}
	return v, err
}
