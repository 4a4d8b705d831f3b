package survey

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/survey/source"
	"github.com/berth-dev/berth/internal/wire"
)

// Gangs returns the gangs of the known pods and PodGroups.
func (l *Live) Gangs(ctx context.Context) (*Gangs, error) {
	namespace := l.c.Namespace
	if !l.Moves() {
		namespace = metav1.NamespaceAll
	}
	objects, err := l.groups.Get(func() (*source.Groups, error) { return l.c.From.GroupsIn(ctx, namespace) })
	if err != nil {
		return nil, err
	}
	return gangsOf(l.Pods(), objects, l.Now()), nil
}

// GangsOf returns the gangs of all known pods if at least one of the given pods is in a gang.
// Otherwise it returns no gangs.
func (l *Live) GangsOf(ctx context.Context, pods []*corev1.Pod) (*Gangs, error) {
	if !slices.ContainsFunc(pods, wire.InGang) {
		return &Gangs{}, nil
	}
	return l.Gangs(ctx)
}

// GangNamed finds a gang by its Gang.Source and its name.
func (l *Live) GangNamed(ctx context.Context, namespace, source, name string) (*Gang, error) {
	all, err := l.Gangs(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all.Gangs, func(g Gang) bool { return g.Namespace == namespace && g.Source == source && g.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("no %s %s in namespace %s at %s", source, name, namespace, l.c.Where)
	}
	return &all.Gangs[at], nil
}
