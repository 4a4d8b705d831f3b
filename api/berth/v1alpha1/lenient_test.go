package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestOneObjectOfAnotherFormDoesNotSpoilTheList(t *testing.T) {
	const list = `{"kind":"NodeTopologyList","apiVersion":"berth.dev/v1alpha1","metadata":{"resourceVersion":"7"},"items":[
{"metadata":{"name":"good"},"spec":{"machine":"package:1"},"status":{"sequence":3,"pods":["uid-1 main;cpus=1"]}},
{"metadata":{"name":"old","uid":"u"},"spec":{"machine":"package:1"},"status":{"pods":[{"uid":"uid-1","containers":[{"name":"main"}]}]}},
{"kind":"NodeTopology","metadata":{"name":"bad","resourceVersion":"5"},"spec":["x"]},
{"metadata":{"name":"last"},"spec":{"machine":"package:2"}}]}`
	var l NodeTopologyList
	if err := json.Unmarshal([]byte(list), &l); err != nil {
		t.Fatal(err)
	}
	good, old, bad, last := l.Items[0], l.Items[1], l.Items[2], l.Items[3]
	if good.Malformed+last.Malformed != "" || good.Status.Sequence != 3 || good.Status.Pods[0].UID != "uid-1" || last.Spec.Machine != "package:2" {
		t.Errorf("read %+v and %+v", good, last)
	}
	if old.Malformed != "" || !strings.HasPrefix(old.Status.Pods[0].Malformed, "{") {
		t.Errorf("pods of the old form: %+v", old)
	}
	if !strings.Contains(bad.Malformed, "spec") || bad.Name != "bad" || bad.ResourceVersion != "5" || bad.Kind != "NodeTopology" {
		t.Errorf("an object of another form: %+v", bad)
	}
	if err := json.Unmarshal([]byte(`{"metadata":"none"}`), new(NodeTopology)); err == nil {
		t.Error("an object without metadata was read")
	}
}
