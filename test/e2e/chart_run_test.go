package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
)

// chartTest is a cluster with the chart's objects, and agent and scheduler as its workloads run
// them.
type chartTest struct {
	*testing.T
	helm    string
	cluster *cluster
	metrics *prometheus.Registry
}

// TestChartRuns runs the chart's programs with only the rights that the chart grants.
func TestChartRuns(t *testing.T) {
	t.Parallel()
	c := &chartTest{T: t, helm: helm(t)}
	cp := startControlPlane(t, controlplane.Options{})
	if err := cp.Apply(t.Context(), namespaceWith("privileged"), mustRender(t, c.helm, everyCRD, "--skip-tests"), []byte(scraper)); err != nil {
		t.Fatal(err)
	}
	c.cluster = startCluster(t, cp, hollow.Spec{Name: "n1", Machine: twoSockets, KubeletConfig: pinsAll})
	c.startAgent()
	waitReport(t, c.cluster, "n1", "first report", reportReady)
	t.Run("as a second scheduler", func(t *testing.T) { c.second(t) })
	t.Run("as the default scheduler", func(t *testing.T) { c.asDefault(t) })
	t.Run("rights", func(t *testing.T) { c.rights(t) })
}

// startAgent runs the agent with the chart's service account, on n1.
func (c *chartTest) startAgent() {
	c.metrics = prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	node := c.cluster.Nodes[0]
	opts := agent.Options{
		Node: node.Name, Client: asAgent(c.T, c.cluster.ControlPlane, node.Name), Root: node.Dir.Root(), Machine: twoSockets,
		Amounts: true, KubeletVersion: hollow.KubeletVersion, Metrics: c.metrics, Log: slog.New(slog.NewTextHandler(testLog{c.T}, nil)),
	}
	go func() { done <- agent.Run(ctx, opts) }()
	c.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.Errorf("agent: %v", err)
		}
	})
}

// scraper is the account that reads metrics.
const scraper = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus, namespace: berth-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects: [{kind: ServiceAccount, name: prometheus, namespace: berth-system}]
`

// startScheduler runs the command line of the rendered Deployment with the token of its service
// account.
func (c *chartTest) startScheduler(t *testing.T, values ...string) *schedulerProcess {
	t.Helper()
	objects := objectsOf(t, mustRender(t, c.helm, values...))
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	write(t, kubeconfig, c.kubeconfig("berth-scheduler"))
	var config map[string]any
	if err := yaml.Unmarshal(renderedConfig(t, objects), &config); err != nil {
		t.Fatal(err)
	}
	config["clientConnection"].(map[string]any)["kubeconfig"] = kubeconfig
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "scheduler.yaml"), text)
	port, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, a := range podTemplate(t, find(t, objects, "Deployment", "berth-scheduler")).Spec.Containers[0].Args {
		a = strings.Replace(a, "/etc/berth", dir, 1)
		args = append(args, strings.Replace(a, "--secure-port=10259", "--secure-port="+strconv.Itoa(port), 1))
	}
	// A cluster gives a pod its own address, and the API server's address for the checks of tokens.
	args = append(args, "--bind-address=127.0.0.1", "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	return runScheduler(t, schedulerVerb, port, args...)
}

// kubeconfig returns a kubeconfig with a token of one of the chart's service accounts.
func (c *chartTest) kubeconfig(account string) []byte {
	c.Helper()
	token, err := c.cluster.ControlPlane.TokenConfig(c.Context(), "berth-system", account, "")
	if err != nil {
		c.Fatal(err)
	}
	data, err := controlplane.Access(token)
	if err != nil {
		c.Fatal(err)
	}
	return data
}

// get reads a path of the scheduler; token may be empty.
func (p *schedulerProcess) get(path, token string) (int, string, error) {
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", p.port, path), nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func (c *chartTest) waitReady(t *testing.T, p *schedulerProcess) {
	t.Helper()
	eventually(t, "the scheduler is ready", func() error {
		code, body, err := p.get("/readyz", "")
		if err == nil && code != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
	if code, _, err := p.get("/livez", ""); err != nil || code != http.StatusOK {
		t.Errorf("/livez: %d, %v", code, err)
	}
}

// place creates a pinned pod and waits until it runs on the promised CPUs.
func (c *chartTest) place(t *testing.T, name, schedulerName string) {
	t.Helper()
	pod := pinnedPod(name, "", "2")
	pod.Spec.SchedulerName = schedulerName
	create(t, c.cluster, pod)
	got := waitPod(t, c.cluster, name, settled)
	if !running(got) {
		t.Fatalf("%s: %s", got.Status.Reason, got.Status.Message)
	}
	if _, found, err := wire.ReadPlacement(got); err != nil || !found {
		t.Errorf("pod %s has no placement (%v)", name, err)
	}
}

func (c *chartTest) holder(namespace, name string) string {
	lease, err := c.cluster.Client.CoordinationV1().Leases(namespace).Get(c.Context(), name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (c *chartTest) second(t *testing.T) {
	p := c.startScheduler(t)
	c.waitReady(t, p)
	c.place(t, "a", "berth")
	if c.holder("berth-system", "berth-scheduler") == "" || c.holder("kube-system", "kube-scheduler") != "" {
		t.Error("the lease is not berth-system/berth-scheduler")
	}
	if code, _, err := p.get("/metrics", ""); err != nil || code != http.StatusForbidden {
		t.Errorf("metrics without a token: %d, %v, want 403", code, err)
	}
	token, err := c.cluster.ControlPlane.TokenConfig(t.Context(), "berth-system", "prometheus", "")
	if err != nil {
		t.Fatal(err)
	}
	code, text, err := p.get("/metrics", token.BearerToken)
	if err != nil || code != http.StatusOK {
		t.Fatalf("metrics: %d, %v", code, err)
	}
	c.wantMetrics(t, text)
	if log, err := os.ReadFile(p.Log); err != nil || strings.Contains(string(log), "forbidden") {
		t.Errorf("the scheduler lacks a right (%v):\n%s", err, grep(string(log), "forbidden"))
	}
}

func (c *chartTest) asDefault(t *testing.T) {
	p := c.startScheduler(t, asDefault)
	c.waitReady(t, p)
	c.place(t, "b", "")
	if c.holder("kube-system", "kube-scheduler") == "" {
		t.Error("the lease is not kube-system/kube-scheduler")
	}
	if log, err := os.ReadFile(p.Log); err != nil || strings.Contains(string(log), "forbidden") {
		t.Errorf("the scheduler lacks a right (%v):\n%s", err, grep(string(log), "forbidden"))
	}
}

func grep(text, word string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.Contains(line, word) })
	return strings.Join(lines[:min(len(lines), 5)], "\n")
}

// metricName finds names of Berth's and the scheduler's metrics in expressions.
var metricName = regexp.MustCompile(`\b(?:berth|scheduler)_[a-z0-9_]+`)

// wantMetrics checks that every metric of dashboards and alerts exists: on the scheduler's page,
// among the agent's registered metrics, or, if it has no value yet, in the source that declares it.
func (c *chartTest) wantMetrics(t *testing.T, page string) {
	t.Helper()
	exist := map[string]bool{}
	for _, line := range strings.Split(page, "\n") {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			exist[strings.Fields(name)[0]] = true
		}
	}
	families, err := c.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		exist[f.GetName()] = true
	}
	schedmetrics.InitMetrics()
	exist[schedmetrics.PluginExecutionDuration.FQName()] = true // only one cycle in ten is measured
	source := chartFile(t, "internal/scheduler/metrics.go") + chartFile(t, "internal/scheduler/gauges.go") + chartFile(t, "internal/agent/metrics.go") + chartFile(t, "internal/agent/occupancy.go") + chartFile(t, "internal/jobs/metrics.go")
	used := 0
	for _, file := range metricUsers(t) {
		for _, name := range metricName.FindAllString(chartFile(t, file), -1) {
			used++
			base := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !exist[name] && !exist[base] && !declared(source, base) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
	if used < 20 {
		t.Errorf("only %d uses of metrics were found", used)
	}
}

// declared reports whether one of our own metrics is declared under the name, with its prefix or
// without, or as a name and a unit.
func declared(source, name string) bool {
	if at := strings.LastIndex(name, "_"); at > 0 && strings.Contains(source, strconv.Quote(name[:at])) && strings.Contains(source, strconv.Quote(name[at:])) {
		return true
	}
	for _, prefix := range []string{"berth_scheduler_", "berth_agent_"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.Contains(source, strconv.Quote(rest)) {
			return true
		}
	}
	return strings.Contains(source, strconv.Quote(name))
}

func metricUsers(t *testing.T) (out []string) {
	t.Helper()
	for _, pattern := range []string{"deploy/alerts/*.yaml", "deploy/dashboards/*.json"} {
		names, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			out = append(out, strings.TrimPrefix(name, repository+"/"))
		}
	}
	return out
}

// chartFile reads a file of the repository.
func chartFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// rights asks the API server for the rights of the two service accounts.
func (c *chartTest) rights(t *testing.T) {
	const scheduler, agent = "berth-scheduler", "berth-agent"
	for _, tc := range []struct {
		account, verb, group, resource, namespace, name string
		ok                                              bool
	}{
		{scheduler, "watch", "berth.dev", "nodetopologies", "", "", true},
		{scheduler, "patch", "berth.dev", "nodetopologies", "", "n1", false},
		{scheduler, "create", "", "pods/binding", "default", "", true},
		{scheduler, "delete", "", "pods", "default", "p", true}, // preemption
		{scheduler, "create", "", "pods", "default", "", false},
		{scheduler, "update", "", "pods", "default", "p", false},
		{scheduler, "list", "coordination.k8s.io", "leases", "berth-system", "", true},
		{scheduler, "update", "coordination.k8s.io", "leases", "berth-system", "berth-scheduler", true},
		{scheduler, "update", "coordination.k8s.io", "leases", "berth-system", "berth-agent.n1", false},
		{scheduler, "update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler", true},
		{scheduler, "update", "coordination.k8s.io", "leases", "kube-system", "kube-controller-manager", false},
		{scheduler, "get", "", "secrets", "kube-system", "s", false},
		{scheduler, "get", "", "configmaps", "kube-system", "extension-apiserver-authentication", true},
		{scheduler, "get", "", "configmaps", "kube-system", "other", false},
		{scheduler, "update", "", "nodes", "", "n1", false},
		{scheduler, "create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", false},
		{agent, "patch", "berth.dev", "nodetopologies", "", "n1", true},
		{agent, "patch", "topology.node.k8s.io", "noderesourcetopologies", "", "n1", true},
		{agent, "delete", "berth.dev", "nodetopologies", "", "n1", false},
		{agent, "list", "", "pods", "", "", true},
		{agent, "create", "", "pods", "default", "", false},
		{agent, "create", "", "pods/binding", "default", "", false},
		{agent, "create", "", "pods/exec", "default", "p", false},
		{agent, "delete", "", "pods", "default", "p", false},
		{agent, "patch", "", "pods/status", "default", "p", false},
		{agent, "patch", "", "nodes", "", "n1", false},
		{agent, "get", "", "nodes/proxy", "", "n1", false},
		{agent, "get", "", "secrets", "berth-system", "s", false},
		{agent, "create", "", "serviceaccounts/token", "berth-system", "berth-scheduler", false},
		{agent, "patch", "coordination.k8s.io", "leases", "berth-system", "berth-agent.n1", true},
		{agent, "patch", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler", false},
		{agent, "create", "authentication.k8s.io", "tokenreviews", "", "", true}, // for clients that read its metrics
	} {
		resource, sub, _ := strings.Cut(tc.resource, "/")
		review, err := c.cluster.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:berth-system:" + tc.account,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:berth-system", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: tc.verb, Group: tc.group, Resource: resource, Subresource: sub, Namespace: tc.namespace, Name: tc.name,
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != tc.ok {
			t.Errorf("%s may %s %s %s/%s: %v, want %v", tc.account, tc.verb, tc.resource, tc.namespace, tc.name, review.Status.Allowed, tc.ok)
		}
	}
}
