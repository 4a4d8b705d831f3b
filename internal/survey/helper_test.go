package survey

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
func (w *world) cluster() *Cluster {
	w.Helper()
	var file bytes.Buffer
	w.Must(w.Write(&file))
	c, err := Open(&file, "test")
	w.Must(err)
	c.Namespace = metav1.NamespaceAll
	return c
}
