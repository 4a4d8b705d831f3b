package main

import (
	"net/http/httptest"
	"testing"
)

func TestRequestsAreToldApart(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/api/v1/nodes?watch=true", "watch nodes"},
		{"GET", "/api/v1/nodes?limit=500", "list nodes"},
		{"POST", "/api/v1/namespaces/load/pods/a/binding", "create pods/binding"},
		{"PATCH", "/apis/berth.dev/v1alpha1/nodetopologies/n", "patch nodetopologies"},
		{"PATCH", "/apis/coordination.k8s.io/v1/namespaces/berth-system/leases/n", "patch leases"},
		{"GET", "/metrics", "get"},
	} {
		if got := askedFor(httptest.NewRequest(c.method, c.path, nil)); got != c.want {
			t.Errorf("%s %s is %q, want %q", c.method, c.path, got, c.want)
		}
	}
}
