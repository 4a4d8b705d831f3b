package hollow

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubeletscheme "k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/util/codec"
)

// logVerbosely makes the kubelet log its work on each pod (-v=2), as kubelets do in most clusters.
func logVerbosely() error {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	return flags.Set("v", "2")
}

// loadConfig decodes the KubeletConfiguration of the Spec, applies the kubelet's defaults, and
// overrides settings that a node without a machine cannot apply. loadConfig then sets feature gates
// and validates the result, as the kubelet does.
func loadConfig(ctx context.Context, dir Dir, spec *Spec) (*kubeletconfig.KubeletConfiguration, error) {
	_, codecs, err := kubeletscheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	text := cmp.Or(spec.KubeletConfig, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
	cfg, err := codec.DecodeKubeletConfiguration(ctx, codecs, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("KubeletConfiguration: %w", err)
	}
	defaultEviction(cfg)
	hollowOut(cfg, dir)
	if spec.MaxPods > 0 {
		cfg.MaxPods = spec.MaxPods
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(cfg.FeatureGates); err != nil {
		return nil, fmt.Errorf("KubeletConfiguration: featureGates: %w", err)
	}
	if err := validation.ValidateKubeletConfiguration(cfg, utilfeature.DefaultFeatureGate); err != nil {
		return nil, fmt.Errorf("KubeletConfiguration: %w", err)
	}
	return cfg, nil
}

// defaultEviction completes evictionHard as cmd/kubelet/app.loadConfigFile does. The Memory Manager
// needs the complete value, because it compares the sum of reservedMemory with a sum that includes
// evictionHard.
func defaultEviction(c *kubeletconfig.KubeletConfiguration) {
	if c.EvictionHard == nil {
		c.EvictionHard = maps.Clone(eviction.DefaultEvictionHard)
		return
	}
	if !c.MergeDefaultEvictionSettings {
		return
	}
	for signal, threshold := range eviction.DefaultEvictionHard {
		if _, ok := c.EvictionHard[signal]; !ok {
			c.EvictionHard[signal] = threshold
		}
	}
}

// hollowOut overrides fields that do not suit a node without a machine. Most of them would make the
// kubelet use cgroups, serve a port, or use files outside dir. pkg/kubemark.GetHollowKubeletConfig
// overrides some of the same fields.
func hollowOut(c *kubeletconfig.KubeletConfiguration, dir Dir) {
	c.EnableServer, c.ReadOnlyPort, c.HealthzPort = false, 0, 0
	c.Address = "127.0.0.1"
	c.StaticPodURL, c.StaticPodPath = "", ""
	c.ContainerRuntimeEndpoint, c.ImageServiceEndpoint = "unix:///nonexistent", "unix:///nonexistent"
	c.CgroupsPerQOS, c.CgroupRoot, c.KubeletCgroups, c.SystemCgroups = false, "", "", ""
	c.EnforceNodeAllocatable = []string{"none"} // a kubelet without cgroups starts only with none
	c.EnableControllerAttachDetach = false
	c.FailSwapOn, c.FailCgroupV1 = false, false
	c.ProtectKernelDefaults = false
	c.MakeIPTablesUtilChains = false
	c.RegisterNode = true
	c.LocalStorageCapacityIsolation = true
	c.RotateCertificates, c.ServerTLSBootstrap = false, false
	c.PodLogsDir = string(dir) + "/logs"
	c.ResolverConfig = ""
	c.RuntimeRequestTimeout.Duration = time.Minute
	// Pulls need no limit, because no registry serves them. The kubelet pulls images with the tag
	// latest for every container. With the default limit of five pulls per second, a pod that
	// starts together with many others could wait for 10 or 20 seconds.
	c.RegistryPullQPS = 0
}

// writeConfig writes the effective configuration as /configz would return it. The kubelet fills
// /configz before reservedSystemCPUs overrides other fields.
func writeConfig(dir Dir, cfg *kubeletconfig.KubeletConfiguration) error {
	data, err := codec.EncodeKubeletConfig(cfg, kubeletconfigv1beta1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	return os.WriteFile(dir.KubeletConfig(), data, 0o600)
}

// reserveCPUs lets reservedSystemCPUs override cpu in kubeReserved and systemReserved, as
// cmd/kubelet/app.run does. `count` is the number of CPUs in reservedSystemCPUs.
func reserveCPUs(cfg *kubeletconfig.KubeletConfiguration, count int) {
	if count == 0 {
		return
	}
	delete(cfg.KubeReserved, "cpu")
	if cfg.SystemReserved == nil {
		cfg.SystemReserved = map[string]string{}
	}
	cfg.SystemReserved["cpu"] = strconv.Itoa(count)
}

func resourceList(field string, m map[string]string) (v1.ResourceList, error) {
	if len(m) == 0 {
		return nil, nil
	}
	list := v1.ResourceList{}
	for name, text := range m {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("KubeletConfiguration: %s[%s]: %q: want a quantity of at least 0", field, name, text)
		}
		list[v1.ResourceName(name)] = q
	}
	return list, nil
}
