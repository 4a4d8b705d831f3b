package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/berth-dev/berth/internal/kubeletconfig"
)

// ConfigSource reads the effective KubeletConfiguration. ConfigFile and Configz return a
// ConfigSource.
type ConfigSource struct {
	read func(ctx context.Context) (*kubeletv1beta1.KubeletConfiguration, error)
	// fingerprint returns a text that changes with the files. The field newer returns the files
	// that were changed after a time. Both are nil for Configz.
	fingerprint func() string
	newer       func(time.Time) []string
}

// ConfigFile reads a KubeletConfiguration in YAML or JSON. If dir is not "", the drop-ins in dir
// override fields of the file, and the flags override both, as for the kubelet.
func ConfigFile(path, dir, flags string) ConfigSource {
	files := kubeletconfig.Files{File: path, Dir: dir, Flags: flags}
	read := func(context.Context) (*kubeletv1beta1.KubeletConfiguration, error) { return files.Read() }
	return ConfigSource{read: read, fingerprint: files.Fingerprint, newer: files.NewerThan}
}

// Configz reads the configuration from a running kubelet at url ("https://10.0.0.7:10250/configz").
// The client must be authorised for nodes/configz. An IPv6 address may lack its brackets, as in the
// downward API's status.hostIP.
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
		data, err := io.ReadAll(io.LimitReader(resp.Body, kubeletconfig.MaxBytes))
		if err != nil {
			return nil, fmt.Errorf("configz %s: %w", url, err)
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("configz %s: %s: want 200 OK (for 403, grant the agent the verb get on nodes/configz, or on nodes/proxy if the kubelet's feature gate KubeletFineGrainedAuthz is off)", url, resp.Status)
		}
		var answer struct {
			Config map[string]any `json:"kubeletconfig"`
		}
		err = json.Unmarshal(data, &answer)
		if err == nil && answer.Config == nil {
			err = errors.New("kubeletconfig is missing")
		}
		if err != nil {
			return nil, fmt.Errorf("configz %s: %w: want an object with the key kubeletconfig", url, err)
		}
		kubeletconfig.SettleEviction(answer.Config) // the answer omits an empty evictionHard
		return kubeletconfig.Decode(url, answer.Config)
	}}
}

// bracketed puts brackets around an IPv6 address in a URL such as https://fd00::7:10250/configz.
// The port follows the last colon.
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

// relevantGates are the feature gates that affect the decisions of the kubelet's resource managers,
// or whether the agent can read the decisions.
var relevantGates = []string{
	"CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions", "CPUManagerPolicyOptions",
	"TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions", "TopologyManagerPolicyOptions",
	"PodLevelResources", "PodLevelResourceManagers", "PodLevelResourcesFixKubeletQOSClass", "MemoryManager", "DRAExtendedResource",
	"InPlacePodVerticalScaling", "InPlacePodVerticalScalingExclusiveCPUs", "InPlacePodVerticalScalingExclusiveMemory",
	"InPlacePodVerticalScalingInitContainers",
	"AllAlpha", "AllBeta",
}

// gatesOf returns the gates for the report: the relevantGates, and all gates with the name prefix
// of the CPU, Topology or Memory Manager.
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
