package vm

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/internal/demo"
)

// TestMain lets the test binary run as schedulers too.
func TestMain(m *testing.M) {
	if code, ok := demo.Role(os.Args[1:], os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
