package steer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/claims"
)

// Name is the name of the plugin in profiles and statuses.
const Name = "BerthClaims"

// Weight is the weight of the plugin. kube-scheduler gives DynamicResources the same weight.
const Weight = 2

// MaxWays is the maximum number of ways that one attempt tries on a node.
const MaxWays = claims.MaxWays

// Plugin is the plugin in one profile of the scheduler.
type Plugin struct {
	*dynamicresources.DynamicResources
	berth    Berth
	handle   fwk.Handle
	view     *view
	excluded exclusions
	// features are the settings of DynamicResources. selectors caches compiled selectors of claims.
	features  feature.Features
	selectors *cel.Cache
	// whole means that DynamicResources reads slices in Filter too. This package then cannot hide
	// devices from it.
	whole bool
}

var (
	_ fwk.PreEnqueuePlugin  = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.PostFilterPlugin  = (*Plugin)(nil)
	_ fwk.PreScorePlugin    = (*Plugin)(nil)
	_ fwk.ScorePlugin       = (*Plugin)(nil)
	_ fwk.ReservePlugin     = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.PreBindPlugin     = (*Plugin)(nil)
	_ fwk.PostBindPlugin    = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Options are the arguments of New that only this plugin needs.
type Options struct {
	Berth Berth
	Clock clock.PassiveClock
	// Features are the feature settings that kube-scheduler gives DynamicResources.
	Features feature.Features
}

// New makes the plugin. The parameter obj has DynamicResourcesArgs as JSON or YAML; nil means
// kube-scheduler's defaults.
func New(ctx context.Context, obj runtime.Object, handle fwk.Handle, o Options) (*Plugin, error) {
	args, err := parseArgs(obj)
	if err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	v := &view{Handle: handle}
	made, err := dynamicresources.New(ctx, args, v, o.Features)
	if err != nil {
		return nil, err
	}
	return &Plugin{
		DynamicResources: made.(*dynamicresources.DynamicResources), berth: o.Berth, handle: handle, view: v,
		excluded: newExclusions(o.Clock), whole: o.Features.EnableDRANodeAllocatableResources, features: o.Features,
		selectors: cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: o.Features.EnableDRAConsumableCapacity, EnableListTypeAttributes: o.Features.EnableDRAListTypeAttributes,
		}),
	}, nil
}

// parseArgs reads the arguments of DynamicResources and sets defaults. kube-scheduler sets defaults
// only for a plugin with the name DynamicResources.
func parseArgs(obj runtime.Object) (*config.DynamicResourcesArgs, error) {
	said := struct {
		metav1.TypeMeta `json:",inline"`
		FilterTimeout   *metav1.Duration `json:"filterTimeout"`
		BindingTimeout  *metav1.Duration `json:"bindingTimeout"`
	}{
		FilterTimeout:  &metav1.Duration{Duration: config.DynamicResourcesFilterTimeoutDefault},
		BindingTimeout: &metav1.Duration{Duration: config.DynamicResourcesBindingTimeoutDefault},
	}
	if err := DecodeArgs(obj, &said); err != nil {
		return nil, err
	}
	args := &config.DynamicResourcesArgs{FilterTimeout: said.FilterTimeout}
	if said.BindingTimeout != nil && said.BindingTimeout.Duration != config.DynamicResourcesBindingTimeoutDefault {
		args.BindingTimeout = said.BindingTimeout // an error if its feature gate is off
	}
	return args, nil
}

// DecodeArgs reads the arguments of a plugin, JSON or YAML, into a struct. Unlike
// frameworkruntime.DecodeInto, it refuses unknown fields. It changes nothing if there are no
// arguments.
func DecodeArgs(obj runtime.Object, into any) error {
	switch o := obj.(type) {
	case nil:
		return nil
	case *runtime.Unknown:
		if len(bytes.TrimSpace(o.Raw)) == 0 {
			return nil
		}
		raw, err := yaml.YAMLToJSONStrict(o.Raw)
		if err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		return d.Decode(into)
	default:
		return fmt.Errorf("got %T, want JSON or YAML", obj)
	}
}

// Name implements fwk.Plugin.
func (*Plugin) Name() string { return Name }

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p.DynamicResources }

// EventsToRegister implements fwk.EnqueueExtensions. A deleted pod may release CPUs near devices
// that a waiting pod needs.
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	all, err := p.DynamicResources.EventsToRegister(ctx)
	if err != nil || len(all) == 0 {
		return all, err
	}
	left := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}
	return append(all, fwk.ClusterEventWithHint{Event: left, QueueingHintFn: p.afterPodDelete}), nil
}

func (p *Plugin) afterPodDelete(_ klog.Logger, pod *corev1.Pod, was, _ any) (fwk.QueueingHint, error) {
	left, ok := was.(*corev1.Pod)
	if mode, err := p.berth.Mode(pod); !ok || left.Spec.NodeName == "" || err != nil || mode == claims.Free {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// shortly is the timeout for the API requests of Unreserve and PostFilter.
const shortly = 10 * time.Second
