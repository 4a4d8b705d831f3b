package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/internal/controlplane"
)

// extension is the data that a playground adds to its kubeconfig, under the name extensionName.
// Only berth-demo reads it.
type extension struct {
	// Socket is the path of the Keeper's socket.
	Socket string `json:"socket"`
}

const extensionName = "playground.berth.dev"

// Kubeconfig returns an administrator's kubeconfig. It also contains the path of the Keeper's
// socket, which Ask uses.
func (k *Keeper) Kubeconfig() ([]byte, error) {
	data, err := k.cluster.ControlPlane.Kubeconfig(controlplane.Admin.Name, controlplane.Admin.Groups)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(extension{k.line.Addr().String()})
	if err != nil {
		return nil, err
	}
	config.Extensions[extensionName] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	return clientcmd.Write(*config)
}

func (k *Keeper) serve() error {
	server := &http.Server{Handler: http.HandlerFunc(k.take), ReadHeaderTimeout: 5 * time.Second}
	if err := server.Serve(k.line); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// wordKey is the query parameter with the command; it is repeated, once for each word.
const wordKey = "word"

func (k *Keeper) take(w http.ResponseWriter, r *http.Request) {
	reply := make(chan answer, 1)
	select {
	case k.asks <- order{r.URL.Query()[wordKey], reply}:
	case <-k.over:
		http.Error(w, "the playground ends", http.StatusServiceUnavailable)
		return
	}
	got := <-reply
	if got.err != nil {
		http.Error(w, got.err.Error(), http.StatusConflict)
		return
	}
	_, _ = io.WriteString(w, got.text) // the client may have gone
}

// Ask sends a command to the playground of the kubeconfig and returns the answer. The command is
// "parts", or "break" or "mend" followed by the name of a part.
func Ask(ctx context.Context, kubeconfig string, words ...string) (string, error) {
	socket, err := socketOf(kubeconfig)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://playground/?"+url.Values{wordKey: words}.Encode(), nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("the playground of %s does not answer (has it ended?): %w", kubeconfig, errors.Unwrap(err))
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), nil
}

func socketOf(kubeconfig string) (string, error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", fmt.Errorf("%w: want the kubeconfig of a running playground, which berth-demo up writes", err)
	}
	var found extension
	if raw, ok := config.Extensions[extensionName].(*runtime.Unknown); ok {
		err = json.Unmarshal(raw.Raw, &found)
	}
	if err != nil || found.Socket == "" {
		return "", fmt.Errorf("%s: the file has no address of a playground: want the kubeconfig that berth-demo up writes", kubeconfig)
	}
	return found.Socket, nil
}
