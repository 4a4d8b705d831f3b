package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/trial"
)

// start watches until ctx ends.
func (o *observer) start(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(o.cluster.client, 0)
	o.store = factory.Core().V1().Pods().Lister()
	pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(trial.Handler(o.seePod, o.podGone))
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(o.cluster.admin)
	if err != nil {
		return err
	}
	dynamics := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	reports, err := dynamics.ForResource(v1alpha1.NodeTopologies).Informer().AddEventHandler(trial.Handler(o.seeReport, func(*unstructured.Unstructured) {}))
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	dynamics.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, reports.HasSynced) {
		return ctx.Err()
	}
	for i := range o.cluster.specs {
		if spec := &o.cluster.specs[i]; spec.NRI {
			go o.watchCgroups(ctx, spec)
		} else {
			go o.watchCheckpoints(ctx, spec)
		}
	}
	go o.watchLeader(ctx)
	return nil
}

func (o *observer) seePod(pod *corev1.Pod) { o.podTold(pod, false) }

func (o *observer) podGone(pod *corev1.Pod) { o.podTold(pod, true) }

// podTold records an event of a pod, or its deletion.
func (o *observer) podTold(pod *corev1.Pod, gone bool) {
	asked := time.Now()
	o.lookFor(pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.watchedOf(pod)
	w.see(pod, gone, asked)
	o.decided.Note(pod)
	o.seeGang(pod)
	switch phase := pod.Status.Phase; {
	case phase == corev1.PodFailed && pod.Status.Reason != "" && !w.refused:
		w.refused = true
		o.takeNeighbours(w)
		o.refusal(w)
	case phase == corev1.PodRunning || phase == corev1.PodSucceeded:
		if !w.ran {
			w.ran = true
			o.tally.ran++
			o.judge(w, asked)
		}
	}
}

// watchedOf returns the record of the pod and creates it if necessary. The caller holds mu.
func (o *observer) watchedOf(pod *corev1.Pod) *watched {
	w := o.pods[pod.UID]
	if w == nil {
		w = &watched{foreign: isForeign(pod)}
		o.pods[pod.UID] = w
		o.tally.pods++
		if w.foreign {
			o.tally.foreign++
		}
	}
	return w
}

// takeNeighbours records other schedulers' pods on w's node from the store before w is judged.
// After a break of the watch, client-go reports changes in random order. The caller holds mu.
func (o *observer) takeNeighbours(w *watched) {
	all, err := o.store.List(labels.Everything())
	if err != nil {
		return // impossible: the store is in memory
	}
	for _, pod := range all {
		if pod.Spec.NodeName == w.pod.Spec.NodeName && isForeign(pod) {
			o.watchedOf(pod).see(pod, false, time.Now())
		}
	}
}

// lookFor makes sure that checkpoints are read after a pod has started or was refused.
func (o *observer) lookFor(pod *corev1.Pod) {
	if phase := pod.Status.Phase; phase != corev1.PodRunning && phase != corev1.PodFailed {
		return
	}
	for i := range o.cluster.specs {
		if spec := &o.cluster.specs[i]; spec.Name == pod.Spec.NodeName && !spec.NRI {
			o.look(spec)
		}
	}
}
