package query

import (
	"bytes"
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/internal/survey"
	"github.com/berth-dev/berth/test/worlds"
)

// world is a worlds.World that can be surveyed.
type world struct{ *worlds.World }

func newWorld(t *testing.T) *world { return &world{worlds.New(t)} }

var (
	noon = worlds.Noon
	pod  = worlds.Pod
)

// cluster opens the world as a file of `berth snapshot`.
func (w *world) cluster() *survey.Cluster {
	w.Helper()
	var file bytes.Buffer
	w.Must(w.Write(&file))
	c, err := survey.Open(&file, "test")
	w.Must(err)
	c.Namespace = metav1.NamespaceAll
	return c
}

// surveyed surveys all nodes.
func surveyed(t *testing.T, c *survey.Cluster) *survey.Survey {
	t.Helper()
	s, err := c.Survey(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// explainGang explains a gang of the cluster's namespace.
func explainGang(ctx context.Context, c *survey.Cluster, source, name string) (*ExplainedGang, error) {
	g, notes, err := c.GangNamed(ctx, source, name)
	if err != nil {
		return nil, err
	}
	return ExplainGang(ctx, c, g, notes)
}

// makeRoomForGang plans room for a gang of the cluster's namespace.
func makeRoomForGang(ctx context.Context, c *survey.Cluster, source, name string, o RoomOptions) (*Room, error) {
	g, _, err := c.GangNamed(ctx, source, name)
	if err != nil {
		return nil, err
	}
	return MakeRoomForGang(ctx, c, g, o)
}
