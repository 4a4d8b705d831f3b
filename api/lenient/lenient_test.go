package lenient_test

import (
	"strings"
	"testing"

	sigsjson "sigs.k8s.io/json"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	nodeinfo "github.com/berth-dev/berth/api/nodeinfo/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	koordinator "github.com/berth-dev/berth/api/scheduling/koordinator/v1alpha1"
	sigs "github.com/berth-dev/berth/api/scheduling/sigs/v1alpha1"
	volcano "github.com/berth-dev/berth/api/scheduling/volcano/v1beta1"
)

// TestOneObjectSpoilsNoList reads lists in which the schemas' own values do not fit the types. The
// other object of the list is read, and the error names the field.
func TestOneObjectSpoilsNoList(t *testing.T) {
	job := func(l *batch.JobList) [2]string {
		return [2]string{l.Items[0].Malformed, l.Items[0].Name + l.Items[0].Spec.SchedulerName + string(l.Items[0].Status.State.Phase) + l.Items[1].Name + l.Items[1].Malformed}
	}
	ofVolcano := func(l *volcano.PodGroupList) [2]string {
		return [2]string{l.Items[0].Malformed, l.Items[0].Name + string(l.Items[0].Status.Phase) + l.Items[1].Name + l.Items[1].Malformed}
	}
	ofSigs := func(l *sigs.PodGroupList) [2]string {
		return [2]string{l.Items[0].Malformed, l.Items[0].Name + string(l.Items[0].Status.Phase) + l.Items[1].Name + l.Items[1].Malformed}
	}
	const ofJob, phase = `{"state": {"phase": "Running"}}`, `{"phase": "Running"}`
	wide := strings.Repeat(`{"name": "w"}, `, 100)
	for name, c := range map[string]struct {
		read                      func(string) ([2]string, error)
		spec, status, wrong, kept string
	}{
		"a timeout of a Job": {as(job), `"schedulerName": "volcano", "policies": [{"action": "AbortJob"}, {"event": "PodFailed", "timeout": "10x"}]`, ofJob,
			`spec.policies[1].timeout: "10x": want a duration such as 90s or 1h30m`, "badvolcanoRunninggood"},
		"an amount in a template": {as(job), `"tasks": [{"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1e1.5"}}}]}}}]`, ofJob,
			`spec.tasks[0].template.spec.containers[0].resources.limits[nvidia.com/gpu]: "1e1.5": want an amount such as 2, 500m or 2Gi`, "badRunninggood"},
		"a field after many": {as(job), `"tasks": [` + wide + `{"replicas": "x"}]`, ofJob, `spec.tasks: "[{\"name\"`, "badRunninggood"},
		"a large object":     {as(job), `"queue": "` + strings.Repeat("q", 20000) + `", "runningEstimate": "soon"`, ofJob, `time: invalid duration "soon"`, "badRunninggood"},
		"an amount of a PodGroup": {as(ofVolcano), `"minResources": {"cpu": "1e1.5"}`, phase,
			`spec.minResources.cpu: "1e1.5": want an amount such as 2, 500m or 2Gi`, "badRunninggood"},
		"a type of a PodGroup": {as(ofVolcano), `"minTaskMember": {"w": "2"}`, phase, `spec.minTaskMember.w: "2": want a whole number (int32)`, "badRunninggood"},
		"of scheduler-plugins": {as(ofSigs), `"minResources": {"cpu": "1e1.5"}`, phase,
			`spec.minResources.cpu: "1e1.5": want an amount such as 2, 500m or 2Gi`, "badRunninggood"},
	} {
		list := `{"items": [{"metadata": {"name": "bad"}, "spec": {` + c.spec + `}, "status": ` + c.status + `}, {"metadata": {"name": "good"}}]}`
		got, err := c.read(list)
		if err != nil || !strings.HasPrefix(got[0], c.wrong) || got[1] != c.kept {
			t.Errorf("%s: got %q, error %v; want %q and %q", name, got, err, c.wrong, c.kept)
		}
	}
	if _, err := as(job)(`{"items": [{"metadata": "x"}]}`); err == nil {
		t.Error("metadata of another type are read")
	}
}

// as reads a list.
func as[L any](show func(*L) [2]string) func(string) ([2]string, error) {
	return func(data string) ([2]string, error) {
		l := new(L)
		if err := sigsjson.UnmarshalCaseSensitivePreserveInts([]byte(data), l); err != nil {
			return [2]string{}, err
		}
		return show(l), nil
	}
}

// TestOneReportSpoilsNoList is TestOneObjectSpoilsNoList for the kinds that other programs write
// about nodes, and for Reservations.
func TestOneReportSpoilsNoList(t *testing.T) {
	ofExporter := func(l *nodeinfo.NumatopologyList) [2]string {
		return [2]string{l.Items[0].Malformed, l.Items[0].Name + l.Items[1].Name + l.Items[1].Malformed}
	}
	ofZones := func(l *nrt.NodeResourceTopologyList) [2]string {
		return [2]string{l.Items[0].Malformed, l.Items[0].Name + l.Items[1].Name + l.Items[1].Malformed}
	}
	reservation := func(l *koordinator.ReservationList) [2]string {
		scheduler := "unread"
		if template := l.Items[0].Spec.Template; template != nil {
			scheduler = template.Spec.SchedulerName
		}
		return [2]string{l.Items[0].Malformed, l.Items[0].Name + scheduler + l.Items[1].Name + l.Items[1].Malformed}
	}
	for name, c := range map[string]struct {
		read               func(string) ([2]string, error)
		body, wrong, names string
	}{
		"a number of a Numatopology": {as(ofExporter), `"spec": {"numares": {"cpu": {"capacity": 1e30}}}`, `spec.numares.cpu.capacity: "1e30": want a whole number (int)`, "badgood"},
		"an amount of a zone": {as(ofZones), `"zones": [{"name": "node-0", "resources": [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "1e1.5"}]}]`,
			`zones[0].resources[0].available: "1e1.5": want an amount such as 2, 500m or 2Gi`, "badgood"},
		"a distance of a zone": {as(ofZones), `"zones": [{"name": "node-0", "costs": [{"name": "node-0", "value": 1e30}]}]`, `zones[0].costs[0].value: "1e30": want a whole number (int64)`, "badgood"},
		"containers of a Reservation": {as(reservation), `"spec": {"template": {"spec": {"schedulerName": "berth", "containers": "x"}}}`,
			`spec.template.spec.containers: "x": want a list`, "badberthgood"},
		"an amount of a Reservation": {as(reservation), `"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "four"}}}]}}}`,
			`spec.template.spec.containers[0].resources.limits.cpu: "four": want an amount such as 2, 500m or 2Gi`, "badgood"},
		"a template that is none": {as(reservation), `"spec": {"template": "x"}`, `spec.template: "x": want an object`, "badunreadgood"},
		"a lifetime":              {as(reservation), `"spec": {"ttl": "1day"}`, `spec.ttl: "1day": want a duration such as 90s or 1h30m`, "badgood"},
		"a status":                {as(reservation), `"status": {"allocatable": {"cpu": "1e1.5"}}`, `status.allocatable.cpu: "1e1.5": want an amount such as`, "badgood"},
	} {
		list := `{"items": [{"metadata": {"name": "bad"}, ` + c.body + `}, {"metadata": {"name": "good"}}]}`
		got, err := c.read(list)
		if err != nil || !strings.HasPrefix(got[0], c.wrong) || got[1] != c.names {
			t.Errorf("%s: got %q, error %v; want %q and %q", name, got, err, c.wrong, c.names)
		}
	}
}
