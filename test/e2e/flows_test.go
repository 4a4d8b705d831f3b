package e2e

import (
	"fmt"
	"net/http"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/controlplane"
)

// testFlows: the API server serves Berth's programs with the priority levels of Kubernetes' own
// programs, and not with the level that all tenants' service accounts share.
func testFlows(t *testing.T, cp *controlplane.ControlPlane) {
	const heartbeats, reports = "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/x", "/apis/berth.dev/v1alpha1/nodetopologies/x"
	flows := kubernetes.NewForConfigOrDie(cp.RESTConfig()).FlowcontrolV1().FlowSchemas()
	for _, c := range []struct {
		namespace, account, path string
		schema, level            string
	}{
		{"berth-system", "berth-scheduler", heartbeats, "berth-leader-election", "leader-election"},
		{"berth-system", "berth-scheduler", "/api/v1/namespaces/default/pods/x", "berth-scheduler", "workload-high"},
		{"berth-system", "berth-scheduler", "/version", "berth-scheduler", "workload-high"},
		{"berth-system", "berth-agent", heartbeats, "berth-agent", "node-high"},
		{"berth-system", "berth-agent", reports, "berth-agent", "node-high"},
		{"berth-system", "berth-agent", "/api/v1/namespaces/default/pods/x", "service-accounts", "workload-low"},
		{"tenant", "berth-scheduler", reports, "service-accounts", "workload-low"},
	} {
		config, err := cp.UserConfig("system:serviceaccount:"+c.namespace+":"+c.account, []string{"system:serviceaccounts", "system:serviceaccounts:" + c.namespace})
		if err != nil {
			t.Fatal(err)
		}
		as, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprint(c), func() error {
			want, err := flows.Get(t.Context(), c.schema, metav1.GetOptions{})
			if err != nil {
				return err
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+c.path, http.NoBody)
			if err != nil {
				return err
			}
			answer, err := as.Do(request)
			if err != nil {
				return err
			}
			_ = answer.Body.Close()
			if got := answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID); got != string(want.UID) {
				return fmt.Errorf("the request uses FlowSchema %q, want %s (%s)", got, want.Name, want.UID)
			}
			if got := want.Spec.PriorityLevelConfiguration.Name; got != c.level {
				return fmt.Errorf("FlowSchema %s has the level %s, want %s", want.Name, got, c.level)
			}
			return nil
		})
	}
}
