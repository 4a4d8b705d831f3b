// Package command is the command line of berth-scheduler, which is kube-scheduler with Berth's
// plugins. It checks the profiles before the start, because a plugin cannot see which of its
// extension points a profile uses.
package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/version"
)

// New returns the command. Its flags are those of kube-scheduler. The parameter plugin is
// scheduler.New or a result of scheduler.With.
func New(plugin frameworkruntime.PluginFactory) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use: "berth-scheduler",
		Long: `berth-scheduler is kube-scheduler with the Berth plugin in it. For pods that a kubelet would pin, it
decides the node, NUMA nodes, CPUs, memory and devices before the pods are bound.

Flags and configuration file are those of kube-scheduler. A profile that has the plugin must have it at
all of its extension points. Otherwise berth-scheduler reports the missing lines and does not start.`,
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set() // before RunE asks for a feature gate
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Lookup("version").Value.String() == string(verflag.VersionTrue) {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "berth-scheduler %s (Kubernetes %s)\n", version.Version, kubeversion.Get())
				return err
			}
			verflag.PrintAndExitIfRequested() // handles --version=raw
			return run(cmd, opts, plugin)
		},
	}
	addFlags(cmd, opts)
	return cmd
}

// addFlags gives the command the flags of kube-scheduler, grouped as in kube-scheduler's help.
func addFlags(cmd *cobra.Command, opts *options.Options) {
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, columns)
}

// run does the same as kube-scheduler's own command (runCommand of cmd/kube-scheduler/app). In
// addition, between Setup and Run, it checks the profiles and calls Equip. It returns after an
// error, or when the process receives a signal to end.
func run(cmd *cobra.Command, opts *options.Options, plugin frameworkruntime.PluginFactory) error {
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		<-genericapiserver.SetupSignalHandler()
		stop()
	}()
	completed, sched, err := app.Setup(ctx, opts, app.WithPlugin(scheduler.Name, plugin), app.WithPlugin(scheduler.TiersName, scheduler.NewTiers), app.WithPlugin(scheduler.SortName, NewSort),
		app.WithPlugin(scheduler.ClaimsName, scheduler.NewClaims))
	if err != nil {
		return err
	}
	if err := checkProfiles(klog.FromContext(ctx), sched.Profiles); err != nil {
		return err
	}
	if err := completed.InformerFactory.Core().V1().Nodes().Informer().SetTransform(dropManagedFields); err != nil {
		return err
	}
	Equip(ctx, sched, completed.ComponentConfig.PercentageOfNodesToScore, completed.ComponentConfig.Profiles)
	if election := completed.LeaderElection; election != nil {
		sayWhoLeads(sched, election.Lock)
	}
	gates.(featuregate.MutableFeatureGate).AddMetrics()
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, completed, sched)
}

// dropManagedFields removes the managed fields of a Node: kilobytes that no plugin reads.
// kube-scheduler itself removes those of pods.
func dropManagedFields(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.ManagedFields = nil
	}
	return obj, nil
}

// sayWhoLeads gives the plugin a function that reads the holder of the election's Lease. This
// function does not use Get of the lock, because Get stores the Lease in the lock, and the election
// would use the stored Lease for its next write.
func sayWhoLeads(sched *kubescheduler.Scheduler, lock resourcelock.Interface) {
	elected, ok := lock.(*resourcelock.LeaseLock)
	if !ok {
		return
	}
	leads := func(ctx context.Context) (bool, error) {
		now, err := elected.Client.Leases(elected.LeaseMeta.Namespace).Get(ctx, elected.LeaseMeta.Name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("lease %s: %w", elected.Describe(), err)
		}
		holder := now.Spec.HolderIdentity
		return holder != nil && *holder == elected.Identity(), nil
	}
	scheduler.WhoLeads(informersOf(sched), leads)
}

// checkProfiles returns an error if a profile has the plugin Berth, but lacks it at a required
// extension point or calls plugins in the wrong order. A profile without the plugin is valid, and
// is logged.
func checkProfiles(logger klog.Logger, profiles map[string]framework.Framework) error {
	var wrong []error
	for name, profile := range profiles {
		plugins := profile.ListPlugins()
		points := pointsOf(plugins)
		if !points.Has() {
			logger.Info("This profile does not have the plugin: kube-scheduler places its pods without decisions about NUMA nodes", "profile", name, "plugin", scheduler.Name)
			continue
		}
		wrong = append(wrong, points.Check(name))
		if rivals, outvoted := outvotes(plugins.Score.Enabled); outvoted {
			logger.Info("Other score plugins can outweigh this one and split pods over NUMA nodes", "profile", name,
				"plugin", scheduler.TiersName, "weightsOfOthers", rivals, "want", "a weight above 100 times theirs")
		}
	}
	return errors.Join(wrong...)
}

// outvotes reports whether other score plugins together can outweigh one tier of scheduler.Tiers,
// and returns the sum of their weights. It returns no error, because a user may choose such weights
// on purpose.
func outvotes(scored []config.Plugin) (rivals int64, outvoted bool) {
	var tiers int64
	for _, p := range scored {
		if p.Name == scheduler.TiersName {
			tiers = int64(p.Weight)
		} else {
			rivals += int64(p.Weight)
		}
	}
	return rivals, tiers > 0 && tiers <= fwk.MaxScore*rivals
}

// pointsOf returns the plugins of a profile by extension point. Defaults and multiPoint are already
// resolved.
func pointsOf(p *config.Plugins) scheduler.Points {
	points := scheduler.Points{}
	for name, set := range map[string]config.PluginSet{"preEnqueue": p.PreEnqueue, "permit": p.Permit, "preFilter": p.PreFilter, "filter": p.Filter, "postFilter": p.PostFilter,
		"preScore": p.PreScore, "score": p.Score, "reserve": p.Reserve, "preBind": p.PreBind, "bind": p.Bind} {
		for _, plugin := range set.Enabled {
			points[name] = append(points[name], plugin.Name)
		}
	}
	return points
}
