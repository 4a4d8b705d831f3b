// Package controllers runs controllers of kube-controller-manager in this process, so that
// Deployments, Jobs and similar kinds work on a control plane without a controller manager. Service
// accounts work too: each namespace gets the service account default, and the ConfigMap with the
// certificates by which pods verify the API server. The code and the settings are those of
// k8s.io/kubernetes/cmd/kube-controller-manager/app. This package does not call its function Run,
// because a process cannot call Run twice.
package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// workloads are the controllers that Start starts.
var workloads = []string{
	names.DeploymentController, names.ReplicaSetController, names.StatefulSetController, names.DaemonSetController, names.JobController, names.CronJobController,
	names.TTLAfterFinishedController, names.DisruptionController, names.NamespaceController, names.GarbageCollectorController, names.ServiceAccountController,
	names.RootCACertificatePublisherController, names.ResourceQuotaController, names.ClusterRoleAggregationController, names.ResourceClaimController,
}

// Start starts the controllers, which use the credentials in config. They run until the caller
// calls stop, even if ctx ends. The function stop waits for their end. Start starts no node
// controllers.
func Start(ctx context.Context, config *rest.Config) (stop func(), err error) {
	return start(ctx, config, workloads)
}

// StartWithNodes does what Start does, and also starts the node controllers. If a node sends no
// heartbeat for 50 seconds, it becomes NotReady, and pods that do not tolerate this are evicted.
func StartWithNodes(ctx context.Context, config *rest.Config) (stop func(), err error) {
	return start(ctx, config, append(slices.Clip(workloads), names.NodeLifecycleController, names.TaintEvictionController))
}

func start(ctx context.Context, config *rest.Config, enabled []string) (stop func(), err error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop, err = run(running, cancel, config, enabled)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("controllers: %w", err)
	}
	return stop, nil
}

// resync is the informers' period in kube-controller-manager, without its random part.
const resync = 12 * time.Hour

// run starts the controllers, which run until ctx ends. The result stop calls cancel, which must
// end ctx, and waits for the end of the controllers.
func run(ctx context.Context, cancel func(), config *rest.Config, enabled []string) (stop func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadata, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	settings, err := options.NewDefaultComponentConfig()
	if err != nil {
		return nil, err
	}
	settings.Generic.Controllers = enabled
	nodes := options.NodeLifecycleControllerOptions{NodeLifecycleControllerConfiguration: &settings.NodeLifecycleController}
	nodes.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError)) // some defaults are only defaults of flags

	shared, objects := informers.NewSharedInformerFactory(client, resync), metadatainformer.NewSharedInformerFactory(metadata, resync)
	all, started := informerfactory.NewInformerFactory(shared, objects), make(chan struct{})
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	manager := app.ControllerContext{
		ClientBuilder:   clientbuilder.SimpleControllerClientBuilder{ClientConfig: config},
		InformerFactory: shared, ObjectOrMetadataInformerFactory: all, InformersStarted: started,
		ComponentConfig: settings, RESTMapper: mapper, ResyncPeriod: func() time.Duration { return resync },
		ControllerManagerMetrics: controllersmetrics.NewControllerManagerMetrics("kube-controller-manager"),
		GraphBuilder:             garbagecollector.NewDependencyGraphBuilder(ctx, metadata, mapper, garbagecollector.DefaultIgnoredResources(), all, started),
	}
	descriptors := app.NewControllerDescriptors()
	delete(descriptors, names.ServiceAccountTokenController) // BuildControllers would build it although it is not enabled
	controllers, err := app.BuildControllers(ctx, manager, descriptors, nil, healthz.NewMutableHealthzHandler())
	if err != nil {
		return nil, err
	}
	shared.Start(ctx.Done())
	objects.Start(ctx.Done())
	close(started)
	done := make(chan struct{})
	go func() {
		defer close(done)
		app.RunControllers(ctx, manager, controllers, app.ControllerStartJitter, 0)
	}()
	return func() {
		cancel()
		<-done
		shared.Shutdown()
		objects.Shutdown()
	}, nil
}
