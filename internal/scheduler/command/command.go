// Package command is the command line of berth-scheduler: that of kube-scheduler, with the Berth
// plugin in it, and with a look at the profiles before it starts. A plugin cannot see which of its
// extension points a profile has.
package command

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	"github.com/berth-dev/berth/internal/scheduler/reservation"
	"github.com/berth-dev/berth/internal/version"
)

// New returns the command. Its flags are those of kube-scheduler. plugin is scheduler.New, or makes
// the plugin with a clock of the caller's.
func New(plugin frameworkruntime.PluginFactory) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use: "berth-scheduler",
		Long: `berth-scheduler is kube-scheduler with the Berth plugin in it. Pods that a kubelet would pin get the
node, NUMA nodes, CPUs, memory and devices that were decided for them, before they are bound.

Flags and configuration file are those of kube-scheduler. A profile that has the plugin must have it at
all of its extension points; otherwise berth-scheduler says what to write and does not start.`,
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set() // before RunE asks for a feature gate
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if askedForVersion(cmd) {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "berth-scheduler %s (Kubernetes %s)\n", version.Version, kubeversion.Get())
				return err
			}
			verflag.PrintAndExitIfRequested() // --version=raw
			return run(cmd, opts, plugin)
		},
	}
	addFlags(cmd, opts)
	return cmd
}

// addFlags gives the command the flags of kube-scheduler, in its groups.
func addFlags(cmd *cobra.Command, opts *options.Options) {
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, columns)
}

func askedForVersion(cmd *cobra.Command) bool {
	return cmd.Flags().Lookup("version").Value.String() == string(verflag.VersionTrue)
}

// run does what kube-scheduler's own command does (runCommand of cmd/kube-scheduler/app), and looks
// at the profiles between Setup and Run. It ends when a signal comes.
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
	completed, sched, err := app.Setup(ctx, opts, app.WithPlugin(scheduler.Name, plugin), app.WithPlugin(scheduler.TiersName, scheduler.NewTiers))
	if err != nil {
		return err
	}
	if err := checkProfiles(klog.FromContext(ctx), sched.Profiles); err != nil {
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

// Equip gives a scheduler whose profiles have the plugin what a plugin cannot do by itself. global
// is what holds for profiles that say no percentageOfNodesToScore; nil for kube-scheduler's own
// choice. profiles are its profiles, with their defaults. Setup has made it, and it does not run
// yet.
func Equip(ctx context.Context, sched *kubescheduler.Scheduler, global *int32, profiles []config.KubeSchedulerProfile) {
	followMates(sched)
	holdReservations(ctx, sched)
	followDelays(sched)
	lookFurther(sched, global, know(sched.Profiles, profiles))
}

// sayWhoLeads lets the plugin ask whom the election's Lease names. The lock itself is not asked: it
// remembers what it reads, for the election's own writes.
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
	for _, profile := range sched.Profiles { // all share their informers
		scheduler.WhoLeads(profile.SharedInformerFactory(), leads)
		return
	}
}

// followMates makes the members of gangs come one after another.
func followMates(sched *kubescheduler.Scheduler) {
	for _, profile := range sched.Profiles { // all share their informers
		sched.NextPod = scheduler.FollowMates(profile.SharedInformerFactory(), sched.NextPod, sched.SchedulingQueue.PopSpecificPod)
		return
	}
}

// lookFurther places pods that could be pinned on the best of all nodes, as far as their profiles
// say, and spreads pods by remembered counts. global is what holds for profiles that say no
// percentage. A scheduler none of whose profiles has the plugin stays as it is.
func lookFurther(sched *kubescheduler.Scheduler, global *int32, about map[string]*known) {
	for _, profile := range sched.Profiles { // all share their informers
		if look := scheduler.LookFurther(profile.SharedInformerFactory()); look != nil {
			sched.SchedulePod = lookingFurther(sched.SchedulePod, look, global, about)
		}
		return
	}
}

// holdReservations has the scheduler hold places for the owners of Reservations.
func holdReservations(ctx context.Context, sched *kubescheduler.Scheduler) {
	for _, profile := range sched.Profiles { // all share their informers
		logger := klog.FromContext(ctx)
		held := scheduler.HoldReservations(profile.SharedInformerFactory(), sched.Cache, sched.SchedulingQueue, func(_ string, held *corev1.Pod) {
			sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(logger, framework.EventAssignedPodDelete, held, nil, nil)
		})
		if held != nil {
			between(sched, held)
		}
		return
	}
}

// followDelays tells the plugin when pods are tried, and when in vain.
func followDelays(sched *kubescheduler.Scheduler) {
	for _, profile := range sched.Profiles { // all share their informers
		delays := scheduler.DelaysOf(profile.SharedInformerFactory())
		if delays == nil {
			return
		}
		next, failed := sched.NextPod, sched.FailureHandler
		sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
			info, err := next(logger)
			if err == nil && info != nil && info.Pod != nil {
				delays.Tried(info.Pod, info.Timestamp)
			}
			return info, err
		}
		sched.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
			none := (*framework.FitError)(nil)
			waits := status.Code() == fwk.Pending || errors.As(status.AsError(), &none) && none.Diagnosis.PendingPlugins.Len() > 0
			delays.Failed(info.Pod, status, waits)
			failed(ctx, profile, info, status, nominating, start)
		}
		return
	}
}

// between tells what is held of the scheduler's cycles.
func between(sched *kubescheduler.Scheduler, held *reservation.Reservations) {
	next, failed, place := sched.NextPod, sched.FailureHandler, sched.SchedulePod
	sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		held.Between()
		info, err := next(logger)
		if err == nil && info != nil && info.Pod != nil {
			held.Begins(info.Pod)
		}
		return info, err
	}
	sched.FailureHandler = func(ctx context.Context, profile framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if !held.Failed(info, status) {
			failed(ctx, profile, info, status, nominating, start)
		}
	}
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		result, err := place(ctx, profile, state, info)
		if err == nil {
			held.Raise(info)
		}
		return result, err
	}
}

// checkProfiles says which profiles have Berth by halves. A profile without Berth is lawful, but
// worth a word.
func checkProfiles(logger klog.Logger, profiles map[string]framework.Framework) error {
	var wrong []error
	for name, profile := range profiles {
		plugins := profile.ListPlugins()
		points := pointsOf(plugins)
		if !points.Has() {
			logger.Info("This profile does not have the plugin: its pods are placed as by kube-scheduler, with no promise", "profile", name, "plugin", scheduler.Name)
			continue
		}
		wrong = append(wrong, points.Check(name))
		if rivals, outvoted := outvotes(plugins.Score.Enabled); outvoted {
			logger.Info("Other score plugins can outvote this one and split pods over NUMA nodes", "profile", name,
				"plugin", scheduler.TiersName, "weightsOfOthers", rivals, "want", "a weight above 100 times theirs")
		}
	}
	return errors.Join(wrong...)
}

// outvotes says whether plugins beside scheduler.Tiers can outvote one of its steps, and what their
// weights add up to. A weight that a chart or a user has chosen on purpose is lawful.
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

// pointsOf returns the plugins that a profile really has: defaults and multiPoint are resolved.
func pointsOf(p *config.Plugins) scheduler.Points {
	points := scheduler.Points{}
	for name, set := range map[string]config.PluginSet{"preEnqueue": p.PreEnqueue, "permit": p.Permit, "preFilter": p.PreFilter, "filter": p.Filter, "postFilter": p.PostFilter,
		"preScore": p.PreScore, "score": p.Score, "reserve": p.Reserve, "bind": p.Bind} {
		for _, plugin := range set.Enabled {
			points[name] = append(points[name], plugin.Name)
		}
	}
	return points
}
