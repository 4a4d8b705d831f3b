package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/cli"
)

// seeReport checks a NodeTopology by the code of `berth check`, and its sequence.
func (o *observer) seeReport(u *unstructured.Unstructured) {
	nt := &v1alpha1.NodeTopology{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, nt); err != nil {
		o.book.violate("NodeTopology "+u.GetName()+": "+err.Error(), u.GetName())
		return
	}
	problem := ""
	for _, p := range nt.Status.Pods {
		o.list(p.UID, nt.Status.Sequence, len(p.Containers) > 0)
	}
	if data, err := json.Marshal(u.Object); err != nil {
		problem = err.Error()
	} else {
		problem = berthCheck(data, "-")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally.reports++
	last := o.reports[nt.Name]
	o.reports[nt.Name] = nt
	if last != nil && last.UID == nt.UID && nt.Status.Sequence < last.Status.Sequence {
		o.book.violate(fmt.Sprintf("NodeTopology %s: sequence fell from %d to %d", nt.Name, last.Status.Sequence, nt.Status.Sequence), nt.Name, u.Object)
	}
	switch {
	case strings.Contains(problem, "the condition Ready of the NodeTopology is not True"):
		o.tally.notReady++ // allowed: the kubelet restarts, and the report says so
	case problem != "":
		o.book.violate("NodeTopology "+nt.Name+": "+problem, nt.Name, u.Object)
	}
}

// list records that a report has the pod, and whether it has the pod's resources.
func (o *observer) list(uid string, sequence int64, holds bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.listed[uid]; !ok {
		o.listed[uid] = sequence
	}
	if _, ok := o.shown[uid]; !ok && holds {
		o.shown[uid] = sequence
	}
}

// berthCheck runs `berth check` and returns its negative findings, or "".
func berthCheck(stdin []byte, args ...string) string {
	var out, errs bytes.Buffer
	cmd := cli.NewCheckCommand()
	cmd.SetArgs(append(args, "--output=json"))
	cmd.SetIn(bytes.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.Execute()
	var found []struct{ What, Problem string }
	if json.Unmarshal(out.Bytes(), &found) != nil && err != nil {
		return err.Error()
	}
	var problems []string
	for _, f := range found {
		if f.Problem != "" {
			problems = append(problems, f.What+": "+f.Problem)
		}
	}
	return strings.Join(problems, "; ")
}
