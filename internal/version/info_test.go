package version

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestInfo(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Info())
	want := `
# HELP berth_build_info Always 1; the labels have the release of Berth and the Kubernetes release that it was built from.
# TYPE berth_build_info gauge
berth_build_info{kubernetes="` + Kubernetes() + `",version="` + Version + `"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), InfoName); err != nil {
		t.Error(err)
	}
}
