package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Shadow has the address of a berth-scheduler in shadow mode (docs/shadow.md).
type Shadow struct {
	// URL is the address of the process, like http://127.0.0.1:10261. "" means the Service
	// berth-shadow in the namespace, reached through the API server of the config.
	URL       string
	Config    *rest.Config
	Namespace string
}

// maxShadow is the maximum size of an answer, in bytes.
const maxShadow = 64 << 20

// CheckShadowURL returns an error for an invalid address; "" is valid.
func CheckShadowURL(text string) error {
	if at, err := url.Parse(text); text != "" && (err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https") {
		return fmt.Errorf("%q: want an address like http://127.0.0.1:10261", text)
	}
	return nil
}

// Ask requests the path from the process, and returns the body of the answer.
func (s *Shadow) Ask(ctx context.Context, path string) ([]byte, error) {
	if s.URL != "" {
		return ask(ctx, strings.TrimSuffix(s.URL, "/")+"/"+path)
	}
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return nil, err
	}
	data, err := client.CoreV1().Services(s.Namespace).ProxyGet("http", "berth-shadow", "http", path, nil).DoRaw(ctx)
	var unreachable *url.Error
	switch {
	case err == nil:
		return data, nil
	case errors.As(err, &unreachable):
		return nil, fmt.Errorf("cannot reach the cluster at %s: %w", s.Config.Host, unreachable.Err)
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("the cluster at %s does not accept your credentials: %w", s.Config.Host, err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("service %s/berth-shadow: you lack the permission to get services/proxy http:berth-shadow:http (the Role berth-shadow-reader grants it)", s.Namespace)
	}
	return nil, fmt.Errorf("service %s/berth-shadow does not answer: %w (the chart installs it with scheduler.mode=shadow)", s.Namespace, err)
}

func ask(ctx context.Context, at string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxShadow))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", at, answer.Status, strings.TrimSpace(string(data)))
	}
	return data, err
}
