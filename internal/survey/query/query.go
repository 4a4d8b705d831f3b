// Package query answers questions about a survey: why a pod or a gang is on its nodes or has none,
// where a pod would fit, which pods must move to make room, and what another setting of the nodes
// would change. The results have JSON tags. The CLI prints them, and the web page shows them.
package query

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/internal/survey"
)

// Base provides the data for a question. It is a survey.Cluster, which is read for each question,
// or a survey.Live.
type Base interface {
	// Cluster returns the cluster that is surveyed.
	Cluster() *survey.Cluster
	// Survey surveys nodes. The argument `only` is the name of one node, or "" for all nodes. The
	// result may have more nodes.
	Survey(ctx context.Context, only string) (*survey.Survey, error)
	// PodNamed returns a pod. If there is none, it returns an error.
	PodNamed(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// Gangs returns the gangs of the Cluster's namespace. It may also return gangs of other
	// namespaces.
	Gangs(ctx context.Context) (*survey.Gangs, error)
}
