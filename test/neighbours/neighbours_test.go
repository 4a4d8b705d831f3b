package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
	"github.com/berth-dev/berth/internal/demo"
)

func TestMain(m *testing.M) {
	if code, ok := demo.Role(os.Args[1:], os.Stdin, os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// from is the folder with the other projects' files, next to the repository.
const from = "../../../shared/neighbours"

// TestUnderVolcanosOwnController: Volcano's vc-controller-manager, with its own definitions,
// creates the pods of its examples, and Berth places them: Jobs, a CronJob, a JobFlow, and plain
// pods, for which the controller creates groups.
func TestUnderVolcanosOwnController(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(filepath.Join(from, "bin", "vc-controller-manager.xz"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("Volcano's own controller is not there: %v", err)
	}
	ran(t, byVolcano, "volcano-example/job/test-job", "je11", "cronjob/cronjob", "jobflow/JobFlow", "deployment/deployment", "drf/nginx-1")
}

// ran checks that the cases succeed with a controller.
func ran(t *testing.T, by string, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := play(ctx, &options{from: from, controller: by, only: strings.Join(names, ","), each: true}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, name := range names {
		if !bytes.Contains(out.Bytes(), []byte(by+": ok "+name+":")) {
			t.Errorf("%s did not run:\n%s", name, &out)
		}
	}
}

// TestInKoordinatorsWords: files from Koordinator's manuals run under the name of its scheduler,
// with its own definitions.
func TestInKoordinatorsWords(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(from, "koordinator-crds")); err != nil {
		t.Skipf("Koordinator's definitions are not there: %v", err)
	}
	cases, err := readKoordinator()
	if err != nil || len(cases) < 15 {
		t.Fatalf("%d files, %v", len(cases), err)
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	ran(t, byNobody, names...)
}

// TestShort: the program fails if an example did not run, a result was wrong, or a field, kind or
// key is ignored without a warning.
func TestShort(t *testing.T) {
	for r, short := range map[result]bool{
		{Examples: 21, Run: 21, E2E: 40, AsVolcano: 38, Documented: 2, Koordinator: 15}: false,
		{Examples: 21, Run: 21, Skipped: 4}:                                             false,
		{Examples: 21, Run: 20}:                                                         true,
		{Examples: 21, Run: 21, Silent: 1}:                                              true,
		{Examples: 21, Run: 21, Wrong: 1}:                                               true,
	} {
		if err := r.write(io.Discard); (err != nil) != short {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestExamplesAreTwentyOne: the folder has 21 Jobs that Volcano runs, one with a misspelt field.
// Volcano's controller serves each of the other files, or the file is left out for a reason.
func TestExamplesAreTwentyOne(t *testing.T) {
	if _, err := os.Stat(filepath.Join(from, "volcano-example")); err != nil {
		t.Skipf("Volcano's examples are not there: %v", err)
	}
	cases, err := readCases(from)
	if err != nil {
		t.Fatal(err)
	}
	count := map[class]int{}
	for _, c := range cases {
		if count[c.class]++; c.class == besideJobs && c.want.pods == 0 {
			t.Errorf("%s: no pods", c.name)
		}
	}
	if count[ofExample] != 21 || count[besideJobs] < 7 {
		t.Errorf("%d examples of Jobs, %d others: want 21, and 7 or more", count[ofExample], count[besideJobs])
	}
}

// TestJoin: a case with two controllers counts once.
func TestJoin(t *testing.T) {
	bad := errors.New("bad")
	for _, c := range []struct {
		one, two finding
		want     result
	}{
		{finding{}, finding{}, result{E2E: 1, AsVolcano: 1}},
		{finding{skipped: "why"}, finding{}, result{E2E: 1, AsVolcano: 1}},
		{finding{}, finding{skipped: "why"}, result{E2E: 1, AsVolcano: 1}},
		{finding{skipped: "why"}, finding{skipped: "why"}, result{Skipped: 1}},
		{finding{wrong: bad}, finding{}, result{E2E: 1, Wrong: 1}},
		{finding{}, finding{wrong: bad}, result{E2E: 1, Wrong: 1}},
	} {
		var both finding
		both.join(c.one)
		both.join(c.two)
		var got result
		if got.add(&testCase{name: "x"}, both); got != c.want {
			t.Errorf("%+v and %+v: %+v, want %+v", c.one, c.two, got, c.want)
		}
		got = result{}
		got.add(&testCase{name: "x", class: besideJobs}, both)
		if want := (result{Wrong: c.want.Wrong, Skipped: c.want.Skipped}); got != want {
			t.Errorf("%+v and %+v of no Job: %+v, want %+v", c.one, c.two, got, want)
		}
	}
}

// TestVolumesOnHollowNodes: pods run with Secrets (also with single keys), ConfigMaps, projected
// and empty volumes, the host's network and storage of the node.
func TestVolumesOnHollowNodes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c, err := startCluster(ctx, &options{}, byBerth)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := c.ControlPlane.Apply(ctx, []byte(podWithVolumes)); err != nil {
		t.Fatal(err)
	}
	r := &running{cluster: c}
	err = r.until(ctx, func(ctx context.Context) error {
		pod, err := c.Client.CoreV1().Pods("default").Get(ctx, "volumes", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = errors.New(podInWords(pod))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

const podWithVolumes = `
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {id_rsa: x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hosts}
data: {hosts: x}
---
apiVersion: v1
kind: Pod
metadata: {name: volumes}
spec:
  hostNetwork: true
  volumes:
  - {name: keys, secret: {secretName: keys, items: [{key: id_rsa, path: .ssh/id_rsa}]}}
  - {name: hosts, configMap: {name: hosts}}
  - {name: both, projected: {sources: [{secret: {name: keys}}, {configMap: {name: hosts}}]}}
  - {name: empty, emptyDir: {sizeLimit: 1Gi}}
  - {name: memory, emptyDir: {medium: Memory}}
  containers:
  - name: c
    image: nginx
    resources: {requests: {ephemeral-storage: 200Gi}, limits: {ephemeral-storage: 200Gi}}
    volumeMounts:
    - {name: keys, mountPath: /root/.ssh, subPath: .ssh}
    - {name: hosts, mountPath: /etc/volcano}
    - {name: both, mountPath: /both}
    - {name: empty, mountPath: /empty}
    - {name: memory, mountPath: /memory}
`

// TestReadExpectation reads entries in the form of EXPECT.tsv.
func TestReadExpectation(t *testing.T) {
	for text, want := range map[string]expectation{
		"reject":                             {rejected: true, phases: []batch.JobPhase{"Running"}},
		"accept":                             {phases: []batch.JobPhase{"Running"}},
		"Volcano: pending (task b needs 2)":  {pending: true, phases: []batch.JobPhase{"Running"}},
		"... Failed; the failed pod is kept": {phases: []batch.JobPhase{"Failed"}},
		"Pending Running; ConfigMap a-svc; a volume":  {phases: []batch.JobPhase{"Pending", "Running"}},
		"Pending while gated, Running afterwards":     {phases: []batch.JobPhase{"Pending", "Running"}},
		"Pending Running ... Restarting (when a pod)": {phases: []batch.JobPhase{"Pending", "Running", "Restarting"}},
	} {
		got := readExpectation(text)
		if got.rejected != want.rejected || got.pending != want.pending || !slices.Equal(got.phases, want.phases) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}
