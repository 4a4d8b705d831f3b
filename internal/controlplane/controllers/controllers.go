// Package controllers runs the workload controllers of kube-controller-manager in this process, so
// that Deployments, Jobs and similar kinds work on a control plane without a controller manager.
// Service accounts work too. Each namespace gets the service account default, and the certificates
// with which pods verify the API server. This package only starts the controllers. Their code is
// that of kube-controller-manager.
package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	kubecontroller "k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
	quotas "k8s.io/kubernetes/pkg/quota/v1/install"
)

const (
	// workers is the number of objects that each controller handles at a time. Two are enough,
	// because the cluster is small.
	workers = 2
	// resync, namespaceSync and discoverySync are kube-controller-manager's defaults, without the
	// random part of its resync period.
	resync        = 12 * time.Hour
	namespaceSync = 5 * time.Minute
	discoverySync = 30 * time.Second
)

// loop is a controller that runs until ctx ends.
type loop func(ctx context.Context)

// set has the common parts of the controllers.
type set struct {
	client    kubernetes.Interface
	authority []byte // certificates with which clients verify the API server, PEM
	metadata  metadata.Interface
	scales    scale.ScalesGetter
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	informers informers.SharedInformerFactory
	// started is closed when the informers run. The garbage collector waits for this.
	started chan struct{}
	objects metadatainformer.SharedInformerFactory
}

// Start starts the controllers with the client's credentials. stop ends them and waits for their
// end. They run until stop is called, even if ctx ends. Start starts no node controllers.
func Start(ctx context.Context, config *rest.Config) (stop func(), err error) {
	return start(ctx, config, (*set).workloads)
}

// StartWithNodes does what Start does, and also starts the node controllers. If a node sends no
// heartbeat for 50 seconds, it becomes NotReady, and pods that do not tolerate this are evicted.
func StartWithNodes(ctx context.Context, config *rest.Config) (stop func(), err error) {
	return start(ctx, config, func(s *set) []maker { return append(s.workloads(), s.nodes, s.evictions) })
}

// maker creates a controller.
type maker func(ctx context.Context) (loop, error)

func start(ctx context.Context, config *rest.Config, makers func(*set) []maker) (stop func(), err error) {
	s, err := newSet(config)
	if err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	loops, err := loops(running, makers(s))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("controllers: %w", err)
	}
	s.informers.Start(running.Done())
	s.objects.Start(running.Done())
	close(s.started)
	var wg sync.WaitGroup
	for _, run := range loops {
		wg.Go(func() { run(running) })
	}
	return func() {
		cancel()
		wg.Wait()
		s.informers.Shutdown()
		s.objects.Shutdown()
	}, nil
}

func newSet(config *rest.Config) (*set, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	kinds := scale.NewDiscoveryScaleKindResolver(client.Discovery())
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, kinds)
	if err != nil {
		return nil, err
	}
	return &set{
		client: client, authority: config.CAData, metadata: objects, scales: scales, mapper: mapper,
		informers: informers.NewSharedInformerFactory(client, resync),
		objects:   metadatainformer.NewSharedInformerFactory(objects, resync),
		started:   make(chan struct{}),
	}, nil
}

func (s *set) workloads() []maker {
	return []maker{
		s.deployments, s.replicaSets, s.statefulSets, s.daemonSets, s.jobs, s.cronJobs, s.finishedJobs,
		s.disruptions, s.namespaces, s.garbage, s.serviceAccounts, s.authorities, s.quotas, s.aggregatedRoles, s.claims,
	}
}

// loops creates the controllers. Each controller asks for its informers here, so that all informers
// are known before they are started.
func loops(ctx context.Context, makers []maker) ([]loop, error) {
	var out []loop
	for _, make := range makers {
		run, err := make(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, run)
	}
	return out, nil
}

func withWorkers(run func(context.Context, int)) loop {
	return func(ctx context.Context) { run(ctx, workers) }
}

// made returns the loop of a controller, or the error with which its constructor failed.
func made(c interface{ Run(context.Context, int) }, err error) (loop, error) {
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func (s *set) deployments(ctx context.Context) (loop, error) {
	apps := s.informers.Apps().V1()
	return made(deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), s.informers.Core().V1().Pods(), s.client))
}

func (s *set) replicaSets(ctx context.Context) (loop, error) {
	c := replicaset.NewReplicaSetController(ctx, s.informers.Apps().V1().ReplicaSets(), s.informers.Core().V1().Pods(), s.client, replicaset.BurstReplicas)
	return withWorkers(c.Run), nil
}

func (s *set) statefulSets(ctx context.Context) (loop, error) {
	apps, core := s.informers.Apps().V1(), s.informers.Core().V1()
	c := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), s.client)
	return withWorkers(c.Run), nil
}

func (s *set) daemonSets(ctx context.Context) (loop, error) {
	apps, core := s.informers.Apps().V1(), s.informers.Core().V1()
	backoff := flowcontrol.NewBackOff(time.Second, 15*time.Minute)
	return made(daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), s.client, backoff))
}

func (s *set) jobs(ctx context.Context) (loop, error) {
	// The arguments nil are the informers for workloads and pod groups. Only the gate
	// WorkloadWithJob needs them.
	return made(job.NewController(ctx, s.client, s.informers.Core().V1().Pods(), s.informers.Batch().V1().Jobs(), nil, nil))
}

func (s *set) cronJobs(ctx context.Context) (loop, error) {
	return made(cronjob.NewControllerV2(ctx, s.informers.Batch().V1().Jobs(), s.informers.Batch().V1().CronJobs(), s.client))
}

func (s *set) finishedJobs(ctx context.Context) (loop, error) {
	return withWorkers(ttlafterfinished.New(ctx, s.informers.Batch().V1().Jobs(), s.client).Run), nil
}

func (s *set) disruptions(ctx context.Context) (loop, error) {
	apps, core := s.informers.Apps().V1(), s.informers.Core().V1()
	c := disruption.NewDisruptionController(ctx, core.Pods(), s.informers.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(),
		apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), s.client, s.mapper, s.scales, s.client.Discovery())
	return withWorkers(c.Run), nil
}

func (s *set) namespaces(ctx context.Context) (loop, error) {
	resources := s.client.Discovery().ServerPreferredNamespacedResources
	c := namespace.NewNamespaceController(ctx, s.client, s.metadata, resources, s.informers.Core().V1().Namespaces(), namespaceSync, corev1.FinalizerKubernetes)
	return withWorkers(c.Run), nil
}

func (s *set) garbage(ctx context.Context) (loop, error) {
	all := informerfactory.NewInformerFactory(s.informers, s.objects)
	c, err := garbagecollector.NewGarbageCollector(ctx, s.client, s.metadata, s.mapper, garbagecollector.DefaultIgnoredResources(), all, s.started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go c.Sync(ctx, s.client.Discovery(), discoverySync)
		c.Run(ctx, workers, discoverySync)
	}, nil
}

// serviceAccounts creates the account default in each namespace.
func (s *set) serviceAccounts(ctx context.Context) (loop, error) {
	core := s.informers.Core().V1()
	return made(serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(), s.client, serviceaccount.DefaultServiceAccountsControllerOptions()))
}

// authorities puts the API server's certificates into each namespace, as the ConfigMap
// kube-root-ca.crt.
func (s *set) authorities(context.Context) (loop, error) {
	core := s.informers.Core().V1()
	return made(rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), s.client, s.authority))
}

// quotaSync is the interval at which the controller counts the usage of all quotas again, as in
// kube-controller-manager.
const quotaSync = 5 * time.Minute

// quotas counts the usage of namespaces. Until its first count, a new quota limits nothing.
func (s *set) quotas(ctx context.Context) (loop, error) {
	config, err := quotas.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(s.informers.ForResource), s.informers)
	if err != nil {
		return nil, err
	}
	resources := s.client.Discovery().ServerPreferredNamespacedResources
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient: s.client.CoreV1(), ResourceQuotaInformer: s.informers.Core().V1().ResourceQuotas(), ResyncPeriod: kubecontroller.StaticResyncPeriodFunc(quotaSync),
		InformerFactory: informerfactory.NewInformerFactory(s.informers, s.objects), ReplenishmentResyncPeriod: kubecontroller.StaticResyncPeriodFunc(resync),
		DiscoveryFunc: resources, IgnoredResourcesFunc: config.IgnoredResources, InformersStarted: s.started,
		Registry: generic.NewRegistry(config.Evaluators()), UpdateFilter: quotas.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go c.Sync(ctx, resources, discoverySync)
		c.Run(ctx, workers)
	}, nil
}

// aggregatedRoles fills the roles admin, edit and view, which aggregate other roles.
func (s *set) aggregatedRoles(context.Context) (loop, error) {
	return withWorkers(clusterroleaggregation.NewClusterRoleAggregation(s.informers.Rbac().V1().ClusterRoles(), s.client.RbacV1()).Run), nil
}

// claims creates ResourceClaims from templates, and releases reservations of deleted pods.
func (s *set) claims(ctx context.Context) (loop, error) {
	resources := s.informers.Resource().V1()
	// The argument nil is the informer for pod groups. Only the gate GenericWorkload needs it.
	return made(resourceclaim.NewController(klog.FromContext(ctx), s.client, s.informers.Core().V1().Pods(), nil, resources.ResourceClaims(), resources.ResourceClaimTemplates()))
}

// Defaults of kube-controller-manager (pkg/controller/nodelifecycle/config/v1alpha1, and the flags
// of cmd/kube-controller-manager/app/options/nodelifecyclecontroller.go).
const (
	nodeMonitorPeriod = 5 * time.Second
	nodeStartupGrace  = time.Minute
	nodeMonitorGrace  = 50 * time.Second
	evictionRate      = 0.1
	secondaryRate     = 0.01
	largeCluster      = 50
	unhealthyZone     = 0.55
)

// nodes sets the condition Ready of silent nodes to Unknown, and taints them.
func (s *set) nodes(ctx context.Context) (loop, error) {
	core := s.informers.Core().V1()
	c, err := nodelifecycle.NewNodeLifecycleController(ctx, s.informers.Coordination().V1().Leases(), core.Pods(), core.Nodes(), s.informers.Apps().V1().DaemonSets(),
		s.client, nodeMonitorPeriod, nodeStartupGrace, nodeMonitorGrace, evictionRate, secondaryRate, largeCluster, unhealthyZone)
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

// evictions deletes pods that do not tolerate, or no longer tolerate, a NoExecute taint of their
// node.
func (s *set) evictions(ctx context.Context) (loop, error) {
	core := s.informers.Core().V1()
	c, err := tainteviction.New(ctx, s.client, core.Pods(), core.Nodes(), "taint-eviction-controller")
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}
