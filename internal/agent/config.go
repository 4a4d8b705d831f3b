package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/wire"
)

// maxConfigBytes bounds a configuration file and an answer of /configz.
const maxConfigBytes = 1 << 20

// ConfigSource tells the effective KubeletConfiguration: ConfigFile or Configz makes one.
type ConfigSource struct {
	read func(ctx context.Context) (*kubeletv1beta1.KubeletConfiguration, error)
	// paths are what it is read from, to be watched; none where a kubelet is asked.
	paths configPaths
}

// ConfigFile reads a KubeletConfiguration in YAML or JSON, and merges the drop-ins of dir, if it is not "", over it, as
// the kubelet does (cmd/kubelet/app, mergeKubeletConfigurations): files that end in .conf, in lexical order, each a JSON
// merge patch (RFC 7396).
func ConfigFile(path, dir string) ConfigSource {
	read := func(context.Context) (*kubeletv1beta1.KubeletConfiguration, error) {
		merged, err := readObject(path)
		if err != nil {
			return nil, err
		}
		completeEviction(merged)
		if dir == "" {
			return decodeConfig(path, merged)
		}
		err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(name) != ".conf" {
				return err
			}
			patch, err := readObject(name)
			if err == nil {
				merge(merged, patch)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("kubelet configuration drop-ins: %w", err)
		}
		settleEviction(merged)
		return decodeConfig(path, merged)
	}
	return ConfigSource{read: read, paths: configPaths{path, dir}}
}

const (
	hardEviction  = "evictionHard"
	mergeEviction = "mergeDefaultEvictionSettings"
)

// completeEviction gives the configuration file the threshold of memory.available if it leaves it out. The kubelet does so before it
// merges drop-ins over it (loadConfigFile of cmd/kubelet/app), which so replace single thresholds; no other concerns placement.
func completeEviction(object map[string]any) {
	const signal = "memory.available"
	own, ok := object[hardEviction].(map[string]any)
	_, set := own[signal]
	switch merge, _ := object[mergeEviction].(bool); {
	case object[hardEviction] == nil:
		object[hardEviction] = map[string]any{signal: wire.DefaultEviction}
	case ok && merge && !set:
		own[signal] = wire.DefaultEviction
	}
}

// settleEviction says that what the object lacks is not there: the kubelet fills in nothing after drop-ins, nor in what it tells.
func settleEviction(object map[string]any) {
	delete(object, mergeEviction) // of a drop-in it comes too late
	if object[hardEviction] == nil {
		object[hardEviction] = map[string]any{}
	}
}

func readObject(path string) (map[string]any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration: %w", err)
	}
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("kubelet configuration %s: more than %d bytes", path, maxConfigBytes)
	}
	var out map[string]any
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("kubelet configuration %s: %w", path, err)
	}
	if kind, ok := out["kind"].(string); ok && kind != "KubeletConfiguration" {
		return nil, fmt.Errorf("kubelet configuration %s: kind: %q: want KubeletConfiguration", path, kind)
	}
	if out == nil {
		out = map[string]any{}
	}
	return out, nil
}

// merge applies a JSON merge patch.
func merge(into, patch map[string]any) {
	for k, v := range patch {
		sub, isMap := v.(map[string]any)
		old, wasMap := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && wasMap:
			merge(old, sub)
		case isMap:
			fresh := map[string]any{}
			merge(fresh, sub)
			into[k] = fresh
		default:
			into[k] = v
		}
	}
}

func decodeConfig(where string, object map[string]any) (*kubeletv1beta1.KubeletConfiguration, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration %s: %w", where, err)
	}
	out := &kubeletv1beta1.KubeletConfiguration{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("kubelet configuration %s: %w", where, err)
	}
	return out, nil
}

// Configz asks a kubelet's /configz at url ("https://10.0.0.7:10250/configz") with an HTTP client that is authorised for
// nodes/configz. An IPv6 address may lack its brackets: the downward API's status.hostIP has none to put into a URL.
func Configz(client *http.Client, url string) ConfigSource {
	url = bracketed(url)
	return ConfigSource{read: func(ctx context.Context) (*kubeletv1beta1.KubeletConfiguration, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, fmt.Errorf("configz: %w", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("configz: %w", err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(io.LimitReader(resp.Body, maxConfigBytes))
		if err != nil {
			return nil, fmt.Errorf("configz %s: %w", url, err)
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("configz %s: %s: want 200: grant get on nodes/configz", url, resp.Status)
		}
		var answer struct {
			Config map[string]any `json:"kubeletconfig"`
		}
		if err := json.Unmarshal(data, &answer); err != nil || answer.Config == nil {
			return nil, fmt.Errorf("configz %s: want an object with kubeletconfig (%v)", url, err)
		}
		settleEviction(answer.Config) // an empty evictionHard is left out of the answer
		return decodeConfig(url, answer.Config)
	}}
}

// bracketed puts brackets around the host of an URL like https://fd00::7:10250/configz; what follows the last colon is the port.
func bracketed(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	address, path, _ := strings.Cut(rest, "/")
	last := strings.LastIndexByte(address, ':')
	if !ok || last < 0 {
		return url
	}
	host, port := address[:last], address[last+1:]
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Is6() {
		return url
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/" + path
}

// relevantGates are the feature gates that change what the kubelet's resource managers decide, or that say so.
var relevantGates = []string{
	"CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions", "CPUManagerPolicyOptions",
	"TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions", "TopologyManagerPolicyOptions",
	"PodLevelResources", "PodLevelResourceManagers", "MemoryManager", "DRAExtendedResource",
	"InPlacePodVerticalScalingExclusiveCPUs", "InPlacePodVerticalScalingExclusiveMemory",
	"AllAlpha", "AllBeta",
}

// gatesOf keeps the gates that matter for placement: a report carries no others.
func gatesOf(all map[string]bool) map[string]bool {
	var out map[string]bool
	for name, on := range all {
		if slices.Contains(relevantGates, name) || strings.HasPrefix(name, "CPUManager") || strings.HasPrefix(name, "TopologyManager") || strings.HasPrefix(name, "MemoryManager") {
			if out == nil {
				out = map[string]bool{}
			}
			out[name] = on
		}
	}
	return out
}
