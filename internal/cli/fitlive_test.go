package cli

import (
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/test/golden"
)

const trainDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: train}
spec:
  replicas: 5
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers:
      - {name: main, image: train, resources: {limits: {cpu: "12", memory: 8Gi, nvidia.com/gpu: "1"}}}
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: data}}
`

// TestFitCluster shows where the replicas of a Deployment would be placed in the playground's
// snapshot.
func TestFitCluster(t *testing.T) {
	in := newInputs(t)
	train := in.file("train.yaml", trainDeployment)
	code, stdout, stderr := run(t, "fit", "-f", train, "--snapshot", playgroundSnapshot)
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden.File(t, "testdata/fit-cluster.txt", stdout)
	ask := func(args ...string) []string {
		return append([]string{"fit", "-f", train, "--snapshot", playgroundSnapshot}, args...)
	}
	expect(t, ExitOK, "8: 4, 1: 4", ask("--set", "numaNodesPerPackage=1", "--on", "gpu-1", "-o", "jsonpath={.pods[0].copies}: {.pods[0].nodes[0].byNUMANodes['0']}, 1: 4")...)
	expect(t, ExitUsage, "applies only to a cluster: leave out the machine", ask("--compare", oneByTwo)...)
	compared := ask("--compare", "--set", "topologyManagerPolicy=none")
	code, stdout, stderr = run(t, compared...)
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden.File(t, "testdata/fit-compare.txt", stdout)
	expect(t, ExitOK, "gpu-1: 1", append(compared, "-o", "jsonpath={.groups[0].like}: {.groups[0].after.nodes}")...)
	expect(t, ExitOK, "EMPTY", ask("--compare", "--set", "reservedSystemCPUs=0-3")...)
	expect(t, ExitFailure, "the node cannot have this configuration: KubeletConfiguration: reservedSystemCPUs: \"900\": want CPUs that the machine has", ask("--set", "reservedSystemCPUs=900", "--set", "cpuManagerPolicy=none")...)
	expect(t, ExitOK, "note: a node must be drained before this setting is changed", ask("--set", "numaNodesPerPackage=1")...)
	expect(t, ExitFailure, "the cores of package 0 cannot be divided evenly", ask("--set", "numaNodesPerPackage=3")...)
	expect(t, ExitUsage, `--set "nps=4": want KEY=VALUE, where KEY is one of topologyManagerPolicy`, ask("--set", "nps=4")...)
	expect(t, ExitFailure, "there is no Node nobody", ask("--on", "nobody")...)
	expect(t, ExitUsage, "--nodes -1", ask("--nodes", "-1")...)
	expect(t, ExitUsage, "--limit 0", ask("--limit", "0")...)
	expect(t, ExitUsage, "--snapshot applies only to a cluster: leave out the machine", ask(oneByTwo)...)
	wide := in.pod("wide", `{limits: {cpu: "70", memory: 8Gi, nvidia.com/gpu: "1"}}`)
	expect(t, ExitFailure, "RESOURCE", "fit", "-f", wide, "--snapshot", playgroundSnapshot)
	expect(t, ExitFailure, "at least one pod does not fit even once", "fit", "-f", wide, "--snapshot", playgroundSnapshot)
	share := in.pod("share", `{requests: {cpu: "2", memory: 1Gi}}`)
	expect(t, ExitOK, "Berth makes no decision for this pod", "fit", "-f", share, "--snapshot", playgroundSnapshot)
}

// TestFitLive uses an API server.
func TestFitLive(t *testing.T) {
	w := busyWorld(t)
	in := newInputs(t)
	a := asked{args: []string{"fit", "-f", in.pod("two", `{limits: {cpu: "2", memory: 1Gi}}`)}, want: []string{"finds a place now", "BY NUMA NODES"}}
	a.check(t, w)
}

// TestFitOfPodsThatShare: if Berth decides on a node, a pod without exclusive CPUs must find room
// there, too.
func TestFitOfPodsThatShare(t *testing.T) {
	w := &world{t: t}
	w.addNode("n1", 0).Status.Allocatable = amountsText("cpu", "14", "memory", "30Gi", "pods", "110")
	w.addTopology(obeying(t, "n1"), nil)
	file := func(name, cpus string) string {
		return newInputs(t).file(name+".yaml", "{apiVersion: v1, kind: Pod, metadata: {name: "+name+", annotations: {"+wire.PolicyAnnotation+
			": single-numa-node}}, spec: {containers: [{name: x, resources: {requests: {cpu: "+cpus+"}}}]}}")
	}
	const pass = "Berth makes no decision for this pod"
	(&asked{args: []string{"fit", "-f", file("narrow", "3500m")}, want: []string{"finds a place now", "In total, 3 copies of it would fit, on 1 node", "0: 1, 1: 2"}, never: []string{pass}}).check(t, w)
	(&asked{args: []string{"fit", "-f", file("wide", "9")}, code: ExitFailure, want: []string{"no node takes it now", "cpu shares"}, never: []string{pass}}).check(t, w)
}
