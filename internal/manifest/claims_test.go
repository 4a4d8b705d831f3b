package manifest

import (
	"strings"
	"testing"
)

// TestClaimTemplates are read together with pods, and errors in them are reported.
func TestClaimTemplates(t *testing.T) {
	const (
		pod      = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: x}]}}\n---\n"
		template = "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: t, namespace: ns}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}}"
	)
	for name, c := range map[string]struct {
		text  string
		names string
		note  string
		wrong int
	}{
		"one":             {pod + template, "ns/t", "", 0},
		"in a list":       {pod + "{apiVersion: v1, kind: List, items: [" + template + "]}", "ns/t", "", 0},
		"of a beta":       {pod + strings.Replace(template, "/v1", "/v1beta2", 1), "", "ResourceClaimTemplate", 0},
		"a field too":     {pod + strings.Replace(template, "requests", "request", 1), "", `ResourceClaimTemplate ns/t`, 1},
		"of another kind": {pod + strings.Replace(template, "resource.k8s.io/v1", "example.com/v1", 1), "", "ResourceClaimTemplate", 0},
	} {
		pods, err := Source{Paths: []string{"-"}, Stdin: strings.NewReader(c.text)}.Read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var names []string
		for i := range pods.Claims {
			names = append(names, pods.Claims[i].Namespace+"/"+pods.Claims[i].Name)
		}
		notes := strings.Join(pods.Notes, "; ")
		if strings.Join(names, " ") != c.names || pods.Wrong != c.wrong || !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
			t.Errorf("%s: templates %v, %d wrong, notes %q", name, names, pods.Wrong, notes)
		}
	}
}
