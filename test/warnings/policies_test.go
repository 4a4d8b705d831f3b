package warnings

import (
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/test/golden"
)

func TestPolicies(t *testing.T) {
	for file, policy := range Policies() {
		golden.File(t, filepath.Join("../../deploy", file), policy)
	}
}
