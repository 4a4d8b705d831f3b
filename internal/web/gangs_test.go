package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/survey"
)

// ganged returns a cluster without nodes, and with one gang in each of two namespaces.
func ganged(t *testing.T) *survey.Live {
	t.Helper()
	pod := func(namespace, name, gang string) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name, "uid": namespace + name, "annotations": map[string]any{"berth.dev/gang": gang, "berth.dev/gang-minimum": "2"}},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "resources": map[string]any{
				"limits": map[string]any{"cpu": "1", "memory": "1Gi"}, "requests": map[string]any{"cpu": "1", "memory": "1Gi"}}}}},
			"status": map[string]any{"phase": "Pending", "qosClass": "Guaranteed"},
		}
	}
	var file bytes.Buffer
	packed := gzip.NewWriter(&file)
	if err := json.NewEncoder(packed).Encode(map[string]any{
		"kind": "BerthSnapshot", "version": 1, "taken": "2026-11-22T12:00:00Z", "where": "test", "staleAfter": "1m", "nodes": []any{}, "nodeTopologies": []any{}, "leases": []any{},
		"pods": []any{pod("seen", "a-0", "a"), pod("seen", "a-1", "a"), pod("hidden", "b-0", "b")},
		"podGroups": []any{map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "metadata": map[string]any{"namespace": "seen", "name": "empty"},
			"spec": map[string]any{"minMember": 3}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := survey.Open(&file, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c.NewLive()
}

func TestGangsAreListedAndExplained(t *testing.T) {
	s := New(Options{Live: ganged(t)})
	for _, c := range []struct {
		path   string
		status int
		want   []string
	}{
		{"/api/gangs", 200, []string{`"name":"a"`, `"state":"waiting"`, `"name":"b"`, `"why":"1 of 2 pods are there"`, `"name":"empty"`, `"source":"PodGroup.scheduling.volcano.sh"`}},
		{"/api/gangs/seen/gang/a", 200, []string{`"verdict":"0 of 2 pods fit now"`, `"pod":"a-0"`, `"whole":false`}},
		{"/api/gangs/seen/PodGroup.scheduling.volcano.sh/empty", 200, []string{`"state":"forming"`}},
		{"/api/pending", 200, []string{`"reason":"GangForming","message":"gang hidden/b: 1 of 2 pods are there","gang":{"namespace":"hidden","source":"gang","name":"b"},"count":1`,
			`"reason":"GangWaiting","message":"gang seen/a: its pods exist, and no scheduler has reported why they wait","gang":{"namespace":"seen","source":"gang","name":"a"},"count":2`}},
		{"/api/pods/hidden/b-0", 200, []string{`"memberOf":{"namespace":"hidden","name":"b","source":"gang","state":"forming"`, `"why":"1 of 2 pods are there"`}},
		{"/api/gangs/seen/gang/nobody", 404, []string{"there is no gang seen/nobody"}},
		{"/api/gangs/seen/PodGroup.scheduling.x-k8s.io/a", 404, []string{"there is no gang seen/a"}},
	} {
		status, body, _ := get(s, c.path)
		if status != c.status {
			t.Errorf("%s: status %d, want %d: %.300s", c.path, status, c.status, body)
		}
		for _, want := range c.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %.2000s\nwant %s", c.path, body, want)
			}
		}
	}
}

// TestGangsOfOneNamespace: gangs of other namespaces are in no list, and requests for them are
// refused.
func TestGangsOfOneNamespace(t *testing.T) {
	s := New(Options{Live: ganged(t), Gate: onlyNamespace("seen")})
	if status, body, _ := get(s, "/api/gangs"); status != 200 || strings.Contains(body, "hidden") || !strings.Contains(body, `"name":"a"`) {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body, _ := get(s, "/api/gangs/hidden/gang/b"); status != 404 {
		t.Errorf("status %d: %s", status, body)
	}
}
