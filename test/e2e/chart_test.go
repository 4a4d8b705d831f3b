package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/agent"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/offer"
	"github.com/berth-dev/berth/internal/rank"
	"github.com/berth-dev/berth/internal/scheduler"
	"github.com/berth-dev/berth/internal/wire"
)

const (
	repository   = "../.."
	chartFolder  = repository + "/deploy/chart/berth"
	asDefault    = "--values=" + chartFolder + "/values-default-scheduler.yaml"
	everyCRD     = "--set=crds.nodeResourceTopology=true"
	fromRegistry = "--set=image.repository=registry.example/berth"
	withMonitors = "--set=monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true"
)

// helm returns the path of Helm, built from tools/helm. If its module cannot be fetched, the test
// is skipped.
func helm(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", "-modfile="+repository+"/tools/helm/go.mod", "helm")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	if regexp.MustCompile(`dial tcp|no such host|lookup disabled|i/o timeout|proxyconnect|connection refused|executable file not found`).MatchString(stderr.String() + err.Error()) {
		t.Skipf("Helm cannot be fetched: %v\n%s", err, stderr.String())
	}
	t.Fatalf("go tool helm: %v\n%s", err, stderr.String())
	return ""
}

// render returns the output of helm template for the chart. The error has Helm's message.
func render(t *testing.T, helm string, args ...string) ([]byte, error) {
	t.Helper()
	return renderFolder(t, helm, chartFolder, args...)
}

func renderFolder(t *testing.T, helm, folder string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm, append([]string{"template", "berth", folder, "--namespace=berth-system", "--kube-version=v1.36.3", fromRegistry}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("helm template: %w: %s", err, stderr.String())
	}
	return out, nil
}

func mustRender(t *testing.T, helm string, args ...string) []byte {
	t.Helper()
	out, err := render(t, helm, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// object is a manifest's document.
type object = unstructured.Unstructured

// objectsOf decodes manifests.
func objectsOf(t *testing.T, manifests ...[]byte) (out []*object) {
	t.Helper()
	for _, m := range manifests {
		d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(m), 4096)
		for {
			o := &object{}
			err := d.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Object) > 0 {
				out = append(out, o)
			}
		}
	}
	return out
}

// find returns the one object of the kind with the name.
func find(t *testing.T, objects []*object, kind, name string) *object {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *object) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return objects[i]
}

// into converts an object.
func into[T any](t *testing.T, o *object) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, out, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return out
}

// namespaceWith is the release's namespace, for pods of a level of pod security.
func namespaceWith(level string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: berth-system\n  labels: {pod-security.kubernetes.io/enforce: %s}\n", level)
}

func TestChart(t *testing.T) {
	t.Parallel()
	h := helm(t)
	t.Run("holds what the plain files hold", func(t *testing.T) { testChartSource(t, h) })
	t.Run("configures the scheduler as the demo does", func(t *testing.T) { testChartWiring(t, h) })
	t.Run("knows no other namespace than its own", func(t *testing.T) { testChartNamespace(t, h) })
	t.Run("refuses wrong values", func(t *testing.T) { testChartValues(t, h) })
	t.Run("names the form of a wrong value", func(t *testing.T) { testChartForms(t, h) })
	t.Run("refuses values that contradict each other", func(t *testing.T) { testChartContradictions(t, h) })
	t.Run("refuses values that are missing", func(t *testing.T) { testChartNulls(t, h) })
	t.Run("names commands that work in its namespace", func(t *testing.T) { testChartNotes(t, h) })
	t.Run("says which Kubernetes it needs", func(t *testing.T) { testChartKubernetes(t, h) })
	t.Run("shows dashboard and alerts", func(t *testing.T) { testChartMonitoring(t, h) })
	t.Run("sets flags and arguments that there are", func(t *testing.T) { testChartFlags(t, h) })
	t.Run("mounts the kubelet's folders", func(t *testing.T) { testChartMounts(t, h) })
	t.Run("carries decisions out where asked", func(t *testing.T) { testChartEnforcement(t, h) })
	t.Run("offers devices where asked", func(t *testing.T) { testChartDevices(t, h) })
	t.Run("asks where the images are", func(t *testing.T) { testChartImages(t, h) })
	t.Run("adds what it is given", func(t *testing.T) { testChartExtras(t, h) })
	t.Run("closes ports where it is told to", func(t *testing.T) { testChartNetwork(t, h) })
	t.Run("tells the map what the scheduler goes by", func(t *testing.T) { testChartMap(t, h) })
	t.Run("watches and places nothing where asked", func(t *testing.T) { testChartShadow(t, h) })
	t.Run("grants the Lease that the scheduler watches", func(t *testing.T) { testChartLease(t, h) })
	t.Run("tests with a pinned pod", func(t *testing.T) { testChartHook(t, h) })
	t.Run("is taken by the API server", func(t *testing.T) { testChartApplies(t, h) })
}

// testChartSource compares roles, policies and definitions with deploy/. Only labels may differ,
// and the annotation with which definitions outlive the release.
func testChartSource(t *testing.T, helm string) {
	objects := objectsOf(t, mustRender(t, helm, everyCRD, "--set=controller.enabled=true,scheduler.profiles[0].schedulerName=volcano"))
	if find(t, objects, "ClusterRole", "berth-viewer").GetLabels()["rbac.authorization.k8s.io/aggregate-to-view"] != "true" {
		t.Error("the chart's labels have taken the place of berth-viewer's own")
	}
	byName := func(objects []*object) map[string]*object {
		out := map[string]*object{}
		for _, o := range objects {
			if !slices.Contains([]string{"Namespace", "ConfigMap", "Deployment", "DaemonSet", "Service", "PodDisruptionBudget", "Pod"}, o.GetKind()) {
				o.SetLabels(nil)
				annotations := o.GetAnnotations()
				delete(annotations, "helm.sh/resource-policy")
				o.SetAnnotations(annotations)
				out[o.GetKind()+" "+o.GetName()] = o
			}
		}
		return out
	}
	plain, chart := byName(objectsOf(t, deploy.ServingNames(append(deploy.Manifests(), deploy.JobManifests()...), "berth", "volcano")...)), byName(objects)
	if len(plain) < 14 {
		t.Fatalf("only %d plain objects", len(plain))
	}
	for name, want := range plain {
		got := chart[name]
		if got == nil {
			t.Errorf("the chart lacks %s", name)
		} else if !reflect.DeepEqual(got.Object, want.Object) {
			t.Errorf("%s differs from the plain file:\n%v\n%v", name, got.Object, want.Object)
		}
	}
	for name := range chart {
		if plain[name] == nil {
			t.Errorf("%s is only in the chart", name)
		}
	}
}

// schedulerConfig is the part of a KubeSchedulerConfiguration that wires the plugin.
type schedulerConfig struct {
	LeaderElection struct {
		LeaderElect                     bool
		ResourceNamespace, ResourceName string
	}
	ClientConnection struct{ QPS, Burst int }
	Profiles         []struct {
		SchedulerName string
		Plugins       map[string]any
		PluginConfig  []struct {
			Name string
			Args map[string]any
		}
	}
}

func configOf(t *testing.T, text []byte) (c schedulerConfig) {
	t.Helper()
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Profiles) != 1 {
		t.Fatalf("%d profiles, want one", len(c.Profiles))
	}
	return c
}

func renderedConfig(t *testing.T, objects []*object) []byte {
	t.Helper()
	return []byte(into[corev1.ConfigMap](t, find(t, objects, "ConfigMap", "berth-scheduler")).Data["scheduler.yaml"])
}

func testChartWiring(t *testing.T, helm string) {
	text, err := scheduler.Configuration(scheduler.ConfigOptions{LeaderElect: true})
	if err != nil {
		t.Fatal(err)
	}
	want := configOf(t, text)
	for _, tc := range []struct {
		name, scheduler, lease, in string
		values                     []string
		configured                 int
	}{
		{"second scheduler", "berth", "berth-scheduler", "berth-system", nil, 3},
		{"default scheduler", "default-scheduler", "kube-scheduler", "kube-system", []string{asDefault}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := configOf(t, renderedConfig(t, objectsOf(t, mustRender(t, helm, tc.values...))))
			p := got.Profiles[0]
			if p.SchedulerName != tc.scheduler || !reflect.DeepEqual(p.Plugins, want.Profiles[0].Plugins) || got.ClientConnection != want.ClientConnection {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if l := got.LeaderElection; !l.LeaderElect || l.ResourceName != tc.lease || l.ResourceNamespace != tc.in {
				t.Errorf("leader election %+v, want lease %s/%s", l, tc.in, tc.lease)
			}
			if len(p.PluginConfig) != tc.configured || p.PluginConfig[0].Name != scheduler.Name {
				t.Errorf("plugin configuration %+v", p.PluginConfig)
			}
		})
	}
	t.Run("one order in all profiles", func(t *testing.T) {
		berths := map[string]any{"enabled": []any{map[string]any{"name": scheduler.SortName}}, "disabled": []any{map[string]any{"name": "*"}}}
		theirs := map[string]any{"enabled": []any{map[string]any{"name": "Theirs"}}, "disabled": []any{map[string]any{"name": "*"}}}
		const second, third = "scheduler.profiles[0].schedulerName=second", "scheduler.profiles[1].schedulerName=third"
		for set, want := range map[string]map[string]any{
			second + "," + third: berths,
			second + "," + third + ",scheduler.profiles[1].plugins.queueSort.enabled[0].name=Theirs,scheduler.profiles[1].plugins.queueSort.disabled[0].name=*": theirs,
		} {
			var got schedulerConfig
			if err := yaml.Unmarshal(renderedConfig(t, objectsOf(t, mustRender(t, helm, "--set="+set))), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Profiles) != 3 || got.Profiles[2].SchedulerName != "third" {
				t.Fatalf("profiles %+v", got.Profiles)
			}
			for _, p := range got.Profiles {
				if !reflect.DeepEqual(p.Plugins["queueSort"], any(want)) {
					t.Errorf("%s: profile %s has %v, want %v", set, p.SchedulerName, p.Plugins["queueSort"], want)
				}
			}
		}
	})
	t.Run("arguments", func(t *testing.T) {
		set := "--set=scheduler.args.staleAfter=2m,scheduler.args.scoring.strategy=LeastAllocated,scheduler.args.scoring.fit=7"
		p := configOf(t, renderedConfig(t, objectsOf(t, mustRender(t, helm, set)))).Profiles[0]
		data, err := yaml.Marshal(p.PluginConfig[0].Args)
		if err != nil {
			t.Fatal(err)
		}
		got, err := scheduler.ParseArgs(&runtime.Unknown{Raw: data})
		if err != nil || got.StaleAfter.Duration.String() != "2m0s" || got.Scoring.Strategy != rank.LeastAllocated || got.Scoring.Fit != 7 {
			t.Errorf("got %+v, error %v", got, err)
		}
	})
}

func testChartNamespace(t *testing.T, helm string) {
	out := mustRender(t, helm, "--namespace=elsewhere", withMonitors)
	for _, o := range objectsOf(t, out) {
		if o.GetKind() == "CustomResourceDefinition" {
			continue // mentions it in a description
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("berth-system")) {
			t.Errorf("%s %s mentions berth-system", o.GetKind(), o.GetName())
		}
	}
}

func testChartValues(t *testing.T, helm string) {
	for _, tc := range []struct{ set, want string }{
		{"schedular.replicas=3", "schedular"},
		{"scheduler.replica=3", "replica"},
		{"scheduler.replicas=0", "replicas"},
		{"scheduler.replicas=many", "replicas"},
		{"scheduler.args.heartbeatNamespace=x", "heartbeatNamespace"},
		{"scheduler.args.scoring.strategy=Best", "strategy"},
		{"scheduler.args.scoring.fit=1001", "fit"},
		{"scheduler.args.keep=cpusNearDevices", "cpusPerDevice"},
		{"scheduler.args.cpusPerDevice.gpu=8", "keep"},
		{"scheduler.featureGates.SignPod=yes", "SignPod"},
		{"agent.kubelet.configSource=guess", "configSource"},
		{"scheduler.weights.BerthTiers=5", "BerthTiers"},
		{`agent.devicePreferences.nvidia\.com/gpu=first`, "devicePreferences"},
		{"agent.devices[0].class=gpu", "resource"},
		{"agent.devices[0].resource=example.com/gpu,agent.devices[0].class=gpus", "class"},
		{"agent.port=80", "port"},
		{"image.pullPolicy=Sometimes", "pullPolicy"},
		{"scheduler.extraEnv[0].value=x", "name"},
		{"scheduler.topologySpreadConstraints[0].maxSkew=1", "topologyKey"},
		{"agent.networkPolicy.form[0].podSelector.a=b", "form"},
		{"pool.nodes=3", "nodes"},
		{"pool.namespaceSelector.matchLabel.a=b", "matchLabel"},
		{"monitoring.dashboard.enable=true", "enable"},
	} {
		if _, err := render(t, helm, "--set="+tc.set); err == nil {
			t.Errorf("%s: taken", tc.set)
		} else if text := err.Error(); !strings.Contains(text, "schema") || !strings.Contains(text, tc.want) {
			t.Errorf("%s: got %v, want a refusal by the schema with %q", tc.set, err, tc.want)
		}
	}
}

// testChartContradictions: the chart refuses values that are valid separately but contradict each
// other.
// testChartForms: for a value in a wrong form, helm prints its path, the value and the right form.
// There is a case for every path in templates/_forms.tpl.
func testChartForms(t *testing.T, helm string) {
	type wrong struct{ set, want string }
	cases := map[string][]wrong{
		"image.repository": {{"image.repository=r.example/berth:v1", `image.repository: "r.example/berth:v1": want a registry and a folder without a tag`},
			{"image.repository=r.example/berth/", "image.repository"}, {"image.repository=r.example/berth@sha256", "image.repository"}},
		"image.digests.scheduler.*":            {{`image.digests.scheduler.1\.36=v1`, `image.digests.scheduler.1.36: "v1"`}},
		"image.digests.agent":                  {{"image.digests.agent=latest", `image.digests.agent: "latest"`}},
		"image.digests.controller":             {{"image.digests.controller=latest", "image.digests.controller"}},
		"image.digests.berth":                  {{"image.digests.berth=latest", "image.digests.berth"}},
		"scheduler.name":                       {{"scheduler.name=Berth!", `scheduler.name: "Berth!": want lower-case letters`}},
		"scheduler.args.staleAfter":            {{"scheduler.args.staleAfter=60", `scheduler.args.staleAfter: "60": want a duration like 30s`}, {"scheduler.args.staleAfter=soon", "staleAfter"}},
		"scheduler.args.settleAfter":           {{"scheduler.args.settleAfter=-1s", "settleAfter"}},
		"scheduler.args.patience":              {{"scheduler.args.patience=soon", "scheduler.args.patience"}},
		"scheduler.args.gangTimeout":           {{"scheduler.args.gangTimeout=1", "scheduler.args.gangTimeout"}},
		"scheduler.args.volcanoLease":          {{"scheduler.args.volcanoLease=x", `scheduler.args.volcanoLease: "x": want NAMESPACE/NAME`}},
		"scheduler.args.admission.keepFor":     {{"scheduler.args.admission.keepFor=soon", "scheduler.args.admission.keepFor"}},
		"scheduler.args.candidates":            {{"scheduler.args.candidates=5", `scheduler.args.candidates: "5": want 16 to 1024, or a negative number`}, {"scheduler.args.candidates=0", "candidates"}},
		"scheduler.args.exclusiveNamespaces.*": {{"scheduler.args.exclusiveNamespaces={a,B}", `scheduler.args.exclusiveNamespaces[1]: "B"`}},
		"scheduler.args.protectedNamespaces.*": {{"scheduler.args.protectedNamespaces={a*}", `scheduler.args.protectedNamespaces[0]: "a*"`}},
		"scheduler.args.numaAttributes.*":      {{"scheduler.args.numaAttributes={numa}", `scheduler.args.numaAttributes[0]: "numa": want DOMAIN/NAME`}},
		"scheduler.weights.@":                  {{"scheduler.weights.Bert=3", `scheduler.weights: "Bert": want Berth,`}},
		"scheduler.pluginConfig.*.name": {{"scheduler.pluginConfig[0].name=Berth,scheduler.pluginConfig[0].args.a=b", `scheduler.pluginConfig[0].name: "Berth": want another plugin`},
			{"scheduler.pluginConfig[0].name=DynamicResources,scheduler.pluginConfig[0].args.a=b", "want BerthClaims"}},
		"scheduler.clientConnection.qps": {{"scheduler.clientConnection.qps=0,scheduler.clientConnection.burst=1", `scheduler.clientConnection.qps: "0": want more than 0`},
			{"scheduler.clientConnection.qps=-1,scheduler.clientConnection.burst=1", "want more than 0"}},
		"scheduler.extraArgs.*":         {{"scheduler.extraArgs={v=4}", `scheduler.extraArgs[0]: "v=4": want a flag`}},
		"agent.kubelet.rootDir":         {{"agent.kubelet.rootDir=var/lib/kubelet", "agent.kubelet.rootDir"}, {"agent.kubelet.rootDir=/var/lib/kubelet/", "want an absolute path without a slash"}},
		"agent.kubelet.configFile":      {{"agent.kubelet.configFile=config.yaml", "agent.kubelet.configFile"}},
		"agent.kubelet.configDropInDir": {{"agent.kubelet.configDropInDir=etc", "agent.kubelet.configDropInDir"}},
		"agent.kubelet.hide.*": {{"agent.kubelet.hide={pods,device-plugins}", `agent.kubelet.hide[1]: "device-plugins": want another directory`}, {"agent.kubelet.hide={/var/lib/kubelet/pod-resources}", "want another directory"},
			{"agent.kubelet.hide={../etc}", `agent.kubelet.hide[0]: "../etc": want a path`}, {"agent.kubelet.hide={/etc/../root}", "want a path"}, {"agent.kubelet.hide={pods/../../etc}", "want a path"}},
		"agent.heartbeat":                     {{"agent.heartbeat=soon", `agent.heartbeat: "soon": want a duration`}},
		"agent.rescan":                        {{"agent.rescan=5", "agent.rescan"}},
		"agent.stateDir":                      {{"agent.stateDir=/x", "agent.stateDir"}},
		"agent.enforce.nriSocket":             {{"agent.enforce.nriSocket=nri.sock", "agent.enforce.nriSocket"}},
		"agent.enforce.tolerateAnnotation":    {{"agent.enforce.tolerateAnnotation=a b", "agent.enforce.tolerateAnnotation"}},
		"agent.devices.*.resource":            {{"agent.devices[0].resource=gpu", `agent.devices[0].resource: "gpu": want the name of a resource with a domain`}},
		"agent.devices.*.vendor":              {{"agent.devices[0].resource=a.b/c,agent.devices[0].vendor=10DE", "agent.devices[0].vendor"}},
		"agent.devices.*.product":             {{"agent.devices[0].resource=a.b/c,agent.devices[0].product=gpu", "agent.devices[0].product"}},
		"agent.devices.*.addresses.*":         {{"agent.devices[0].resource=a.b/c,agent.devices[0].addresses={3b:00.0}", "agent.devices[0].addresses[0]"}},
		"agent.devices.*.cdi.kind":            {{"agent.devices[0].resource=a.b/c,agent.devices[0].cdi.kind=gpu,agent.devices[0].cdi.names=index", "agent.devices[0].cdi.kind"}},
		"agent.devicePreferences.@":           {{"agent.devicePreferences.gpu=sorted", `agent.devicePreferences: "gpu": want the name of a resource`}},
		"agent.updateStrategy.maxUnavailable": {{"agent.updateStrategy.maxUnavailable=ten", `agent.updateStrategy.maxUnavailable: "ten": want a number, or a percentage`}},
		"agent.updateStrategy.maxSurge":       {{"agent.updateStrategy.maxSurge=-1", "agent.updateStrategy.maxSurge"}},
		"agent.extraArgs.*":                   {{"agent.extraArgs={debug}", "agent.extraArgs[0]"}},
		"controller.volcanoLease":             {{"controller.volcanoLease=x", "controller.volcanoLease"}},
		"controller.extraArgs.*":              {{"controller.extraArgs={v}", "controller.extraArgs[0]"}},
		"monitoring.serviceMonitor.interval":  {{"monitoring.serviceMonitor.interval=30", "monitoring.serviceMonitor.interval"}},
		"pool.taint":                          {{"pool.taint=a b", `pool.taint: "a b": want the key of a taint`}},
		"{{ $component }}.resources.*.*": {{"agent.resources.limits.cpu=many", `agent.resources.limits.cpu: "many": want a quantity`}, {"scheduler.resources.requests.cpu=-1m", "scheduler.resources.requests.cpu"},
			{"map.resources.limits.cpu=x", "map.resources.limits.cpu"}, {"controller.resources.limits.cpu=x", "controller.resources.limits.cpu"}},
	}
	rival := "agent.rivals[0].program=a,agent.rivals[0].namespace=a,agent.rivals[0].daemonSet=a,agent.rivals[0].serviceAccount=a"
	for _, field := range []string{"program", "namespace", "daemonSet", "serviceAccount"} {
		cases["agent.rivals.*."+field] = []wrong{{strings.Replace(rival, field+"=a", field+"=A", 1), "agent.rivals[0]." + field + `: "A": want`}}
	}
	for path, all := range cases {
		for _, c := range all {
			if _, err := render(t, helm, "--set="+c.set); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "want ") {
				t.Errorf("%s: %s: got %v, want %q", path, c.set, err, c.want)
			}
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^- \[([^,]*),`).FindAllStringSubmatch(chartFile(t, "deploy/chart/berth/templates/_forms.tpl"), -1) {
		if cases[line[1]] == nil {
			t.Errorf("no case for %s", line[1])
		}
	}
	if found := regexp.MustCompile(`"(not|oneOf|anyOf|propertyNames|exclusiveMinimum)":`).FindString(chartFile(t, "deploy/chart/berth/values.schema.json")); found != "" {
		t.Errorf("the schema has %s, and Helm's message about it does not name what would be right: use templates/_forms.tpl", found)
	}
}

func testChartContradictions(t *testing.T, helm string) {
	for _, tc := range []struct{ set, want string }{
		{"pool.enabled=true,scheduler.name=default-scheduler", "pool.enabled: true with scheduler.name"},
		{"pool.namespaceSelector.matchLabels.numa=here", "pool.namespaceSelector: is part of the pool"},
		{"scheduler.profiles[0].schedulerName=berth", "scheduler.profiles[0].schedulerName: berth is also scheduler.name"},
		{"agent.kubelet.configSource=configz,agent.kubelet.configDropInDir=/etc/k.d", "agent.kubelet.configDropInDir: /etc/k.d"},
		{"scheduler.profiles[0].schedulerName=x,scheduler.profiles[1].schedulerName=x", "scheduler.profiles[1].schedulerName: x is also the name of scheduler.profiles[0]"},
		{"scheduler.profiles[0].schedulerName=default-scheduler", "scheduler.profiles[0].schedulerName: default-scheduler with scheduler.name: berth"},
		{"scheduler.pluginConfig[0].name=A,scheduler.pluginConfig[0].args.x=1,scheduler.pluginConfig[1].name=A,scheduler.pluginConfig[1].args.x=2",
			"scheduler.pluginConfig[1].name: A is also the name of scheduler.pluginConfig[0]"},
		{"scheduler.mode=shadow,controller.enabled=true", "controller.enabled: true with scheduler.mode: shadow"},
		{"scheduler.mode=shadow,pool.enabled=true", "pool.enabled: true with scheduler.mode: shadow"},
		{"scheduler.mode=shadow,agent.authority=label", "agent.authority: label with scheduler.mode: shadow"},
		{"controller.enabled=true,controller.port=8081", "controller.port: 8081 is where berth-controller answers"},
		{"agent.kubelet.configFile=/var/lib/kubelet/pki/config.yaml", "agent.kubelet.configFile: /var/lib/kubelet/pki/config.yaml lies below /var/lib/kubelet/pki"},
		{"agent.kubelet.configFile=/etc/kubelet/keys/config.yaml,agent.kubelet.hide={/etc/kubelet}", "agent.kubelet.configFile: /etc/kubelet/keys/config.yaml lies below /etc/kubelet,"},
		{"agent.kubelet.configDropInDir=/var/lib/kubelet/plugins", "agent.kubelet.configDropInDir: /var/lib/kubelet/plugins lies below"},
		{"agent.networkPolicy.enabled=true,monitoring.serviceMonitor.enabled=true", "agent.networkPolicy.from: empty lets nobody"},
		{"scheduler.networkPolicy.enabled=true,monitoring.serviceMonitor.enabled=true", "scheduler.networkPolicy.from: empty lets nobody"},
		{"controller.enabled=true,controller.networkPolicy.enabled=true,monitoring.serviceMonitor.enabled=true", "controller.networkPolicy.from: empty lets nobody"},
		{"agent.devices[0].resource=example.com/gpu,agent.devices[0].class=gpu", "agent.devices: with agent.authority: kubelet"},
		{"agent.authority=berth,agent.enforcer=koordlet,agent.devices[0].resource=example.com/gpu,agent.devices[0].class=gpu", "agent.devices: with agent.enforcer: koordlet"},
		{"agent.rescan=1m", "agent.rescan: 1m: an agent is ready while"},
		{"agent.heartbeat=1m", "scheduler.args.staleAfter: 60s with agent.heartbeat: 1m"},
		{"agent.heartbeat=30s", "scheduler.args.staleAfter: 60s with agent.heartbeat: 30s"},
		{"agent.enforcer=koordlet", "agent.enforcer: koordlet with agent.authority: kubelet"},
		{"agent.resources.limits.cpu=1,agent.resources.requests.cpu=1000m,agent.resources.requests.memory=256Mi", "agent.resources: limits.cpu: 1 with requests"},
		{"agent.resources.limits.cpu=1,agent.resources.requests.cpu=1,agent.resources.limits.memory=67108864", "agent.resources: limits.cpu: 1 with requests"},
		{"agent.resources.limits.cpu=2000m,agent.resources.requests=null", "agent.resources: limits.cpu: 2000m"},
		{"scheduler.args.staleAfter=1500ms,agent.heartbeat=1s", "scheduler.args.staleAfter: 1500ms"},
		{"scheduler.args.staleAfter=20s,agent.heartbeat=0s", "scheduler.args.staleAfter: 20s"}, // 0s means 10s
		{"controller.enabled=true,controller.volcanoLease=a/b", "controller.volcanoLease: a/b with scheduler.args.volcanoLease: volcano-system/vc-controller-manager"},
		{"controller.enabled=true,scheduler.args.volcanoLease=a/b", "with scheduler.args.volcanoLease: a/b"},
		{"agent.updateStrategy.maxSurge=1", "agent.updateStrategy: maxUnavailable: 10% with maxSurge: 1"},
		{"agent.updateStrategy.maxUnavailable=0", "agent.updateStrategy: maxUnavailable: 0 with maxSurge: 0"},
		{"agent.authority=label,agent.updateStrategy.maxSurge=10%,agent.updateStrategy.maxUnavailable=0", "agent.updateStrategy.maxSurge: 10% with agent.authority: label"},
	} {
		_, err := render(t, helm, "--set="+tc.set)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%s: got %v, want %q", tc.set, err, tc.want)
		}
	}
	for _, set := range []string{
		"agent.kubelet.configFile=/var/lib/kubelet/pki-config.yaml", "agent.rescan=30s",
		"agent.networkPolicy.enabled=true,monitoring.serviceMonitor.enabled=true,agent.networkPolicy.from[0].podSelector.matchLabels.a=b",
		"controller.networkPolicy.enabled=true,monitoring.serviceMonitor.enabled=true",
		"controller.port=8081", "scheduler.name=default-scheduler,scheduler.profiles[0].schedulerName=x",
		"agent.heartbeat=12s", "agent.heartbeat=1m,scheduler.args.staleAfter=5m", "agent.heartbeat=0.5m,scheduler.args.staleAfter=2m30s",
		"image.repository=localhost:5000/berth", "image.repository=berth", "scheduler.weights.BerthTiers=2000000,scheduler.weights.ImageLocality=3",
		"agent.resources.limits.cpu=1", "agent.resources.limits.cpu=100m,agent.resources.requests.cpu=100m", "agent.enforcer=koordlet,agent.authority=berth",
		"agent.resources.limits=null", "agent.resources=null", "map.enabled=true,scheduler.args=null", "scheduler.mode=shadow,scheduler.args=null",
		"agent.resources.limits.cpu=1,agent.resources.requests.cpu=1", // the requested memory differs from the limit
		"controller.enabled=true,controller.volcanoLease=a/b,scheduler.args.volcanoLease=a/b", "scheduler.args.volcanoLease=a/b",
		"agent.updateStrategy=null", "agent.updateStrategy.maxSurge=1,agent.updateStrategy.maxUnavailable=0", "agent.resources.requests=null,agent.resources.limits.cpu=100m",
	} {
		mustRender(t, helm, "--set="+set)
	}
}

// everyPart enables all that the chart can install.
const everyPart = "map.enabled=true,pool.enabled=true,controller.enabled=true,agent.authority=label,monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true"

// testChartNulls: null removes a value. The schema names a removed value without which the chart
// could not be rendered. Without all other values, the chart is rendered.
func testChartNulls(t *testing.T, helm string) {
	values, schema := map[string]any{}, map[string]any{}
	for file, into := range map[string]*map[string]any{"values.yaml": &values, "values.schema.json": &schema} {
		if err := yaml.Unmarshal([]byte(chartFile(t, "deploy/chart/berth/"+file)), into); err != nil {
			t.Fatal(err)
		}
	}
	var optional []string
	required := map[int][]string{} // by depth, because null removes all that is below
	var sort func(path []string, values, schema map[string]any)
	sort = func(path []string, values, schema map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		names, _ := schema["required"].([]any)
		for name, value := range values {
			at := append(slices.Clone(path), name)
			if !slices.Contains(names, any(name)) && name != "enabled" {
				optional = append(optional, strings.Join(at, ".")+"=null")
				continue
			}
			if name != "enabled" {
				required[len(at)] = append(required[len(at)], strings.Join(at, "."))
			}
			below, is := value.(map[string]any)
			if of, known := properties[name].(map[string]any); is && known {
				sort(at, below, of)
			}
		}
	}
	sort(nil, values, schema)
	if len(optional) < 50 || len(required) < 3 {
		t.Fatalf("optional %q, required %v", optional, required)
	}
	for _, more := range []string{everyPart, "scheduler.mode=shadow,map.enabled=true"} {
		all := slices.DeleteFunc(slices.Clone(optional), func(set string) bool {
			return strings.HasPrefix(set, "scheduler.mode=") || strings.HasPrefix(set, "image.repository=")
		})
		out, err := render(t, helm, "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy", "--set="+strings.Join(all, ","), "--set="+more)
		if err != nil || bytes.Contains(out, []byte("nil>")) || regexp.MustCompile(`(?m)- -[-a-z]+=$`).Match(bytes.ReplaceAll(out, []byte("--rivals="), nil)) { // no rivals
			t.Errorf("with %s, and without %q: %v", more, all, err)
		}
	}
	for _, paths := range required {
		_, err := render(t, helm, "--set="+strings.Join(paths, "=null,")+"=null")
		for _, path := range paths {
			parts := strings.Split(path, ".")
			in, name := strings.Join(parts[:len(parts)-1], "/"), parts[len(parts)-1]
			if err == nil || !regexp.MustCompile(`at '/?`+in+`': missing propert(y|ies) .*'`+name+`'`).MatchString(err.Error()) {
				t.Errorf("%s=null: got %v, want a refusal by the schema that names it", path, err)
			}
		}
	}
}

// testChartNotes renders the notes as a ConfigMap, because helm template does not print them.
func testChartNotes(t *testing.T, helm string) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "templates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "files", "templates/_helpers.tpl", "templates/NOTES.txt"} {
		at, err := filepath.Abs(filepath.Join(chartFolder, name))
		if err == nil {
			err = os.Symlink(at, filepath.Join(folder, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const notes = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata:\n  notes: {{ include (print $.Template.BasePath \"/NOTES.txt\") . | toJson }}\n"
	write(t, filepath.Join(folder, "templates", "notes.yaml"), []byte(notes))
	for namespace, want := range map[string]string{"berth-system": "\n    kubectl berth shadow\n", "numa": "\n    kubectl berth shadow --heartbeat-namespace=numa\n"} {
		out, err := renderFolder(t, helm, folder, "--namespace="+namespace, "--set=scheduler.mode=shadow")
		if err != nil {
			t.Fatal(err)
		}
		if got := into[corev1.ConfigMap](t, find(t, objectsOf(t, out), "ConfigMap", "notes")).Data["notes"]; !strings.Contains(got, want) {
			t.Errorf("in %s: got %q, want %q", namespace, got, want)
		}
	}
}

// testChartKubernetes: the API server's release decides which build of the scheduler is installed,
// as a scheduler and in shadow mode. The oldest API server on which the chart can be installed is
// the oldest that is tested (make e2e-versions).
func testChartKubernetes(t *testing.T, helm string) {
	for version, tc := range map[string]struct{ build, err string }{
		"v1.33.13":      {"", "kubeVersion"},
		"v1.34.0":       {"1.36", ""},
		"v1.35.4-gke.1": {"1.36", ""},
		"v1.36.3":       {"1.36", ""},
		"v1.37.0":       {"1.37", ""},
		"v1.37.2+k3s1":  {"1.37", ""},
		"v1.38.1":       {"1.37", ""},
		"v1.39.0":       {"", "Kubernetes v1.39.0: this chart has schedulers for API servers up to 1.38: install a release of Berth with a scheduler of Kubernetes 1.38 or 1.39"},
		"v2.0.0":        {"", "kubeVersion"},
	} {
		for mode, name := range map[string]string{"schedule": "berth-scheduler", "shadow": "berth-shadow"} {
			out, err := render(t, helm, "--kube-version="+version, "--set=image.tag=v1,scheduler.mode="+mode)
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("Kubernetes %s: %v, want %q", version, err, tc.err)
				}
				continue
			}
			got := podTemplate(t, find(t, objectsOf(t, out), "Deployment", name)).Spec.Containers[0].Image
			if want := "registry.example/berth/berth-scheduler:v1-k8s" + tc.build; got != want {
				t.Errorf("Kubernetes %s: %s has image %s, want %s", version, name, got, want)
			}
		}
	}
	if _, err := render(t, helm, "--kube-version=v1.39.0", "--set=scheduler.enabled=false"); err != nil {
		t.Errorf("Kubernetes v1.39.0 without a scheduler: %v", err)
	}
}

// testChartImages: images have no default repository, because a wrong one would end as
// ImagePullBackOff.
func testChartImages(t *testing.T, helm string) {
	if _, err := render(t, helm, "--set=image.repository="); err == nil || !strings.Contains(err.Error(), "image.repository: there is no public registry") {
		t.Errorf("without a repository: %v", err)
	}
	if _, err := render(t, helm, "--set=image.repository=,scheduler.enabled=false,agent.enabled=false"); err != nil {
		t.Errorf("without images, no repository is needed: %v", err)
	}
	digest := "sha256:" + strings.Repeat("0a", 32)
	objects := objectsOf(t, mustRender(t, helm, "--set=image.tag=v1,image.digests.agent="+digest))
	for kind, want := range map[string]string{"DaemonSet": "registry.example/berth/berth-agent@" + digest, "Deployment": "registry.example/berth/berth-scheduler:v1-k8s1.36"} {
		name := map[string]string{"DaemonSet": "berth-agent", "Deployment": "berth-scheduler"}[kind]
		if got := podTemplate(t, find(t, objects, kind, name)).Spec.Containers[0].Image; got != want {
			t.Errorf("%s: image %s, want %s", kind, got, want)
		}
	}
	other := "sha256:" + strings.Repeat("0b", 32)
	for set, want := range map[string]string{
		`scheduler.1\.36=` + digest: "@" + digest,
		`scheduler.1\.36=` + digest + `,image.digests.scheduler.1\.37=` + other: "@" + digest,
		"scheduler=":               ":v1-k8s1.36", // an upgrade with the values of a release with only one scheduler
		`scheduler.1\.37=` + other: "no digest of build 1.36, which Kubernetes v1.36.3 needs",
		`scheduler.1\.99=` + other: `image.digests.scheduler: "1.99": want some of 1.36, 1.37`,
		"scheduler=" + digest:      "want one digest for each build",
		`scheduler.1\.36=v1`:       "want sha256: and 64 lower-case hexadecimal digits",
	} {
		out, err := render(t, helm, "--set=image.tag=v1,image.digests."+set)
		switch {
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("image.digests.%s: %v, want %q", set, err, want)
		case err == nil:
			got := podTemplate(t, find(t, objectsOf(t, out), "Deployment", "berth-scheduler")).Spec.Containers[0].Image
			if got != "registry.example/berth/berth-scheduler"+want {
				t.Errorf("image.digests.%s: image %s, want %s", set, got, want)
			}
		}
	}
}

// extras has one value of each kind that the chart passes on.
const extras = `
scheduler:
  podLabels: {team: hpc, app.kubernetes.io/component: forged}
  serviceAccount: {annotations: {example.com/role: reader}}
  extraArgs: [--v=4]
  extraEnv: [{name: GOGC, value: "50"}]
  extraVolumes: [{name: more, emptyDir: {}}]
  extraVolumeMounts: [{name: more, mountPath: /more}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
  - {maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {team: hpc}}}
agent:
  podLabels: {team: hpc, app.kubernetes.io/component: forged}
  serviceAccount: {annotations: {example.com/role: reader}}
  extraArgs: [--v=4]
  extraEnv: [{name: GOGC, value: "50"}]
  extraVolumes: [{name: more, emptyDir: {}}]
  extraVolumeMounts: [{name: more, mountPath: /more}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}
  networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}
`

func testChartExtras(t *testing.T, helm string) {
	file := filepath.Join(t.TempDir(), "extras.yaml")
	write(t, file, []byte(extras))
	objects := objectsOf(t, mustRender(t, helm, "--values="+file))
	for name, kind := range map[string]string{"berth-agent": "DaemonSet", "berth-scheduler": "Deployment"} {
		pod := podTemplate(t, find(t, objects, kind, name))
		main := pod.Spec.Containers[0]
		if pod.Labels["team"] != "hpc" || pod.Labels["app.kubernetes.io/component"] != strings.TrimPrefix(name, "berth-") {
			t.Errorf("%s: labels %v", name, pod.Labels)
		}
		if !slices.Contains(main.Args, "--v=4") || !slices.Contains(main.Env, corev1.EnvVar{Name: "GOGC", Value: "50"}) {
			t.Errorf("%s: args %q, env %v", name, main.Args, main.Env)
		}
		hasMount := slices.ContainsFunc(main.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/more" && m.Name == "more" })
		hasVolume := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "more" && v.EmptyDir != nil })
		if !hasMount || !hasVolume {
			t.Errorf("%s: mounts %v, volumes %v", name, main.VolumeMounts, pod.Spec.Volumes)
		}
		if got := find(t, objects, "ServiceAccount", name).GetAnnotations()["example.com/role"]; got != "reader" {
			t.Errorf("service account %s: annotation %q", name, got)
		}
	}
	spread := podTemplate(t, find(t, objects, "Deployment", "berth-scheduler")).Spec.TopologySpreadConstraints
	if len(spread) != 2 || spread[0].TopologyKey != "zone" || spread[0].LabelSelector == nil || spread[0].LabelSelector.MatchLabels["app.kubernetes.io/component"] != "scheduler" {
		t.Fatalf("spread %v", spread)
	}
	if got := spread[1].LabelSelector.MatchLabels; len(got) != 1 || got["team"] != "hpc" {
		t.Errorf("a constraint that selects team: hpc selects %v", got)
	}
	if a := agentPod(t, objects).Affinity; a == nil || a.NodeAffinity == nil {
		t.Errorf("affinity of the agent: %v", a)
	}
	policy := into[networkingv1.NetworkPolicy](t, find(t, objects, "NetworkPolicy", "berth-agent")).Spec
	if len(policy.Ingress) != 1 || len(policy.Ingress[0].From) != 1 || policy.PodSelector.MatchLabels["app.kubernetes.io/component"] != "agent" {
		t.Errorf("network policy %v", policy)
	}
	closed := into[networkingv1.NetworkPolicy](t, find(t, objectsOf(t, mustRender(t, helm, "--set=agent.networkPolicy.enabled=true")), "NetworkPolicy", "berth-agent")).Spec
	if len(closed.Ingress) != 0 || len(closed.PolicyTypes) != 1 {
		t.Errorf("an empty from allows connections: %v", closed)
	}
}

// testChartNetwork: each component can have its own policy for its one port. By default there are
// none, because the readers of metrics are unknown.
func testChartNetwork(t *testing.T, helm string) {
	all := "--set=map.enabled=true,controller.enabled=true"
	if slices.ContainsFunc(objectsOf(t, mustRender(t, helm, all)), func(o *object) bool { return o.GetKind() == "NetworkPolicy" }) {
		t.Error("there is a NetworkPolicy by default")
	}
	ports := map[string]string{"scheduler": "https", "agent": "metrics", "controller": "metrics", "map": "http"}
	for component, port := range ports {
		all += fmt.Sprintf(",%s.networkPolicy.enabled=true,%[1]s.networkPolicy.from[0].podSelector.matchLabels.a=b", component)
		kind := map[string]string{"agent": "DaemonSet"}[component]
		objects := objectsOf(t, mustRender(t, helm, all))
		policy := into[networkingv1.NetworkPolicy](t, find(t, objects, "NetworkPolicy", "berth-"+component)).Spec
		pod := podTemplate(t, find(t, objects, cmp.Or(kind, "Deployment"), "berth-"+component))
		if len(policy.Ingress) != 1 || len(policy.Ingress[0].Ports) != 1 || policy.Ingress[0].Ports[0].Port.StrVal != port {
			t.Errorf("%s: ingress %v, want port %s alone", component, policy.Ingress, port)
		}
		if !labels.SelectorFromSet(policy.PodSelector.MatchLabels).Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s: selects %v, and the pod has %v", component, policy.PodSelector.MatchLabels, pod.Labels)
		}
		if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port }) {
			t.Errorf("%s: no port is called %s", component, port)
		}
	}
	objects := objectsOf(t, mustRender(t, helm, "--set=map.enabled=true,scheduler.mode=shadow,scheduler.networkPolicy.enabled=true"))
	shows := podTemplate(t, find(t, objects, "Deployment", "berth-map"))
	ingress := into[networkingv1.NetworkPolicy](t, find(t, objects, "NetworkPolicy", "berth-shadow")).Spec.Ingress
	if len(ingress) != 1 || len(ingress[0].From) != 1 || !labels.SelectorFromSet(ingress[0].From[0].PodSelector.MatchLabels).Matches(labels.Set(shows.Labels)) {
		t.Errorf("the map may not ask shadow mode: %v", ingress)
	}
}

// testChartMap: the map gets the scheduler's arguments staleAfter, exclusiveNamespaces and keep.
func testChartMap(t *testing.T, helm string) {
	args := func(set string) []string {
		return podTemplate(t, find(t, objectsOf(t, mustRender(t, helm, "--set=map.enabled=true"+set)), "Deployment", "berth-map")).Spec.Containers[0].Args
	}
	plain := args("")
	got := args(",scheduler.args.staleAfter=2m,scheduler.args.exclusiveNamespaces={a,*},scheduler.args.keep=cpusNearDevices,scheduler.args.cpusPerDevice.nvidia\\.com/gpu=8,scheduler.args.bestEffortAnywhere=true,scheduler.args.claims=near,scheduler.args.numaAttributes={a.b/c}")
	if want := append(slices.Clone(plain), "--stale-after=2m", "--exclusive-namespaces=a,*", "--keep=cpusNearDevices", "--cpus-per-device=nvidia.com/gpu=8", "--best-effort-anywhere", "--claims=near", "--numa-attributes=a.b/c"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// testChartLease: if the scheduler may not read the Lease of Volcano's controller, it does not wait
// for the groups of Volcano's pods, and places them one by one.
func testChartLease(t *testing.T, helm string) {
	for set, want := range map[string]string{"scheduler.args=null": "vc-controller-manager", "scheduler.args.volcanoLease=volcano/17": "17"} {
		role := into[rbacv1.ClusterRole](t, find(t, objectsOf(t, mustRender(t, helm, "--set="+set)), "ClusterRole", "berth-scheduler"))
		if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Equal(r.Resources, []string{"leases"}) && slices.Equal(r.ResourceNames, []string{want})
		}) {
			t.Errorf("%s: no rule for Lease %s in %v", set, want, role.Rules)
		}
	}
}

// testChartShadow: one value switches to shadow mode, in which only the agents may write and no
// policy is installed. The same value switches back.
func testChartShadow(t *testing.T, helm string) {
	if plain, schedule := mustRender(t, helm), mustRender(t, helm, "--set=scheduler.mode=schedule"); !bytes.Equal(plain, schedule) {
		t.Error("scheduler.mode: schedule is not the default")
	}
	if reused := mustRender(t, helm, "--set=scheduler.mode=null"); !bytes.Equal(mustRender(t, helm), reused) {
		t.Error("values of a release without scheduler.mode must schedule")
	}
	objects := objectsOf(t, mustRender(t, helm, "--set=scheduler.mode=shadow,scheduler.args.staleAfter=2m", "--set=monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true"))
	for _, o := range objects {
		if strings.Contains(o.GetKind(), "Admission") || o.GetKind() == "Pod" || o.GetName() == "berth-scheduler" {
			t.Errorf("there is a %s %s", o.GetKind(), o.GetName())
		}
	}
	roles := map[string][]rbacv1.PolicyRule{}
	for _, o := range objects {
		switch o.GetKind() {
		case "ClusterRole":
			roles[o.GetName()] = append(roles[o.GetName()], into[rbacv1.ClusterRole](t, o).Rules...)
		case "Role":
			roles[o.GetName()] = append(roles[o.GetName()], into[rbacv1.Role](t, o).Rules...)
		}
	}
	if len(roles["berth-shadow"]) < 3 {
		t.Errorf("berth-shadow may do %v", roles["berth-shadow"])
	}
	for _, rule := range append(roles["berth-shadow"], roles["berth-shadow-reader"]...) {
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("shadow mode may %s %v", verb, rule.Resources)
			}
		}
	}
	pod := podTemplate(t, find(t, objects, "Deployment", "berth-shadow"))
	if args := pod.Spec.Containers[0].Args; args[0] != "shadow" || !slices.Contains(args, "--stale-after=2m") || pod.Spec.ServiceAccountName != "berth-shadow" {
		t.Errorf("args %q, account %s", args, pod.Spec.ServiceAccountName)
	}
	find(t, objects, "Service", "berth-shadow")
	find(t, objects, "ServiceMonitor", "berth-shadow")
	rules := fmt.Sprint(find(t, objects, "PrometheusRule", "berth").Object)
	if strings.Contains(rules, "BerthSchedulerDown") || !strings.Contains(rules, "BerthReportsRefused") {
		t.Errorf("alerts of a missing scheduler, or no alerts of the agents: %s", rules)
	}
}

// testChartHook: a kubelet pins the pod of helm test, and the pod is not part of the installation.
func testChartHook(t *testing.T, helm string) {
	pod := into[corev1.Pod](t, find(t, objectsOf(t, mustRender(t, helm)), "Pod", "berth-test"))
	ask, err := wire.ReadPod(pod)
	if err != nil || pod.Spec.SchedulerName != "berth" || pod.Annotations["helm.sh/hook"] != "test" || !ask.Request.Pinnable() {
		t.Errorf("error %v, pod %+v", err, pod)
	}
	if cpus := ask.Request.Containers[0].MilliCPU; cpus%2000 != 0 {
		t.Errorf("helm test asks for %dm CPUs: with full-pcpus-only and two threads a core it would wait for ever", cpus)
	}
	for _, values := range []string{"--skip-tests", "--set=scheduler.enabled=false"} {
		if slices.ContainsFunc(objectsOf(t, mustRender(t, helm, values)), func(o *object) bool { return o.GetKind() == "Pod" }) {
			t.Errorf("%s: there is a pod", values)
		}
	}
}

// testPool applies the pool's policy and creates pods of each kind. Only Berth's pods tolerate the
// taint.
func testPool(t *testing.T, helm string, g *guarded) {
	if _, err := render(t, helm, asDefault, "--set=pool.enabled=true"); err == nil || !strings.Contains(err.Error(), "want one of the two") {
		t.Errorf("a pool of the default scheduler: %v", err)
	}
	pool := "--set=pool.enabled=true"
	if out := mustRender(t, helm, pool); bytes.Contains(out, []byte("kind: MutatingAdmissionPolicy\n")) {
		t.Error("there is a policy although the API server does not have the kind")
	}
	if !g.serves(t, "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy") {
		if otherServer == "" {
			t.Error("this API server has no MutatingAdmissionPolicy v1")
		}
		return // Helm omits the policy for this API server
	}
	out := mustRender(t, helm, "--skip-tests", pool, "--set=scheduler.profiles[0].schedulerName=profile", "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
	if err := g.cp.Apply(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		scheduler string
		tolerates bool
	}{{"berth", true}, {"", false}, {"volcano", false}, {"profile", true}} {
		pod := plainPod("pooled")
		pod.Spec.SchedulerName = tc.scheduler
		if tc.tolerates { // a toleration of NoExecute does not tolerate NoSchedule
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "berth.dev/pool", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		}
		eventually(t, fmt.Sprintf("a pod of scheduler %q", tc.scheduler), func() error {
			got, err := g.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			n := 0
			for _, toleration := range got.Spec.Tolerations {
				if toleration == (corev1.Toleration{Key: "berth.dev/pool", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}) {
					n++
				}
			}
			if n > 1 || (n == 1) != tc.tolerates {
				return fmt.Errorf("tolerations %v", got.Spec.Tolerations)
			}
			return nil
		})
	}
	testPoolNamespaces(t, helm, g)
	testAnnotatedPods(t, helm, g)
}

// testPoolNamespaces: pods of the selected namespaces that name no scheduler get Berth's name and
// the toleration. Other pods do not change.
func testPoolNamespaces(t *testing.T, helm string, g *guarded) {
	out := mustRender(t, helm, "--skip-tests", "--set=pool.enabled=true,pool.namespaceSelector.matchLabels.numa=here",
		"--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
	if err := g.cp.Apply(t.Context(), out, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: pinned, labels: {numa: here}}\n"),
		[]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: berth-system, labels: {numa: here}}\n")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		namespace, scheduler, node, want string
	}{
		{"pinned", "", "", "berth"},
		{"pinned", "default-scheduler", "", "berth"},
		{"pinned", "volcano", "", "volcano"},
		{"pinned", "", "n1", "default-scheduler"}, // a static pod's mirror, which no scheduler places
		{"default", "", "", "default-scheduler"},
		{"berth-system", "", "", "default-scheduler"}, // otherwise no scheduler would place the first one
	} {
		pod := plainPod("of-a-namespace")
		pod.Spec.SchedulerName, pod.Spec.NodeName = tc.scheduler, tc.node
		eventually(t, fmt.Sprintf("a pod of %s that names scheduler %q", tc.namespace, tc.scheduler), func() error {
			got, err := g.admin.CoreV1().Pods(tc.namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			tolerates := slices.ContainsFunc(got.Spec.Tolerations, func(tol corev1.Toleration) bool { return tol.Key == "berth.dev/pool" })
			if got.Spec.SchedulerName != tc.want || tolerates != (tc.want == "berth") {
				return fmt.Errorf("scheduler %q, tolerations %v, want %q", got.Spec.SchedulerName, got.Spec.Tolerations, tc.want)
			}
			return nil
		})
	}
}

// testAnnotatedPods: pods with Volcano's policy annotation that name no scheduler get Berth's name
// and the toleration of its pool.
func testAnnotatedPods(t *testing.T, helm string, g *guarded) {
	out := mustRender(t, helm, "--skip-tests", "--set=pool.enabled=true,controller.enabled=true", "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
	if err := g.cp.Apply(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ policy, scheduler, want string }{
		{"restricted", "", "berth"}, {"restricted", "volcano", "volcano"}, {"none", "", "default-scheduler"}, {"", "", "default-scheduler"},
	} {
		pod := pinnedPod("annotated", "", "2")
		pod.Spec.SchedulerName = tc.scheduler
		if tc.policy != "" {
			pod.Annotations = map[string]string{wire.VolcanoPolicyAnnotation: tc.policy}
		}
		// A toleration of NoExecute does not tolerate NoSchedule.
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "berth.dev/pool", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		eventually(t, fmt.Sprintf("a pod with policy %q that names scheduler %q", tc.policy, tc.scheduler), func() error {
			got, err := g.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			tolerates := slices.ContainsFunc(got.Spec.Tolerations, func(tol corev1.Toleration) bool {
				return tol.Key == "berth.dev/pool" && tol.Effect == corev1.TaintEffectNoSchedule
			})
			if got.Spec.SchedulerName != tc.want || tolerates != (tc.want == "berth") {
				return fmt.Errorf("scheduler %q, tolerations %v, want %q", got.Spec.SchedulerName, got.Spec.Tolerations, tc.want)
			}
			return nil
		})
	}
}

// serves reports whether the API server has the kind.
func (g *guarded) serves(t *testing.T, group, kind string) bool {
	t.Helper()
	list, err := g.admin.Discovery().ServerResourcesForGroupVersion(group)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind })
}

// testChartMounts checks that the agent's mounts include what it reads, and exclude what it must
// not see.
func testChartMounts(t *testing.T, helm string) {
	mounts := func(values ...string) map[string]string {
		pod := agentPod(t, objectsOf(t, mustRender(t, helm, values...)))
		paths, out := map[string]string{}, map[string]string{}
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				paths[v.Name] = v.HostPath.Path
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if !m.ReadOnly {
				t.Errorf("%s can be written", m.MountPath)
			}
			out[m.MountPath] = paths[m.Name]
		}
		return out
	}
	want := map[string]string{"/host/sys": "/sys", "/var/lib/kubelet": "/var/lib/kubelet", "/var/lib/kubelet/pki": "", "/var/lib/kubelet/pods": "", "/var/lib/kubelet/plugins": "", "/var/lib/kubelet/checkpoints": ""}
	if got := mounts(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	const plugins = "/var/lib/kubelet/device-plugins"
	for values, want := range map[string]map[string]string{
		"rootDir=/data/kubelet,agent.kubelet.configFile=/etc/kubernetes/kubelet/config.yaml,agent.kubelet.configDropInDir=/etc/kubernetes/kubelet.d,agent.kubelet.hide={pki,/etc/kubernetes/kubelet/pki}": {
			"/data/kubelet": "/data/kubelet", "/data/kubelet/pki": "", plugins: plugins, "/etc/kubernetes/kubelet": "/etc/kubernetes/kubelet", "/etc/kubernetes/kubelet/pki": "", "/etc/kubernetes/kubelet.d": "/etc/kubernetes/kubelet.d"},
		// With another --root-dir, a kubelet keeps keys (--cert-dir) and device plugins in place.
		"rootDir=/data/kubelet": {"/data/kubelet": "/data/kubelet", "/data/kubelet/pods": "", "/data/kubelet/plugins": "", "/data/kubelet/checkpoints": "",
			"/var/lib/kubelet": "/var/lib/kubelet", "/var/lib/kubelet/pki": "", plugins: plugins},
		"rootDir=/data/kubelet,agent.kubelet.configSource=configz": {"/data/kubelet": "/data/kubelet", "/data/kubelet/pods": "", "/data/kubelet/plugins": "", "/data/kubelet/checkpoints": "", plugins: plugins},
		"hide=null": {"/var/lib/kubelet": "/var/lib/kubelet"},
	} {
		want["/host/sys"] = "/sys"
		if got := mounts("--set=agent.kubelet." + values); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", values, got, want)
		}
	}
}

// testChartMonitoring checks that dashboard and alerts are complete, and that every alert is
// documented.
func testChartMonitoring(t *testing.T, helm string) {
	objects := objectsOf(t, mustRender(t, helm, withMonitors))
	if got := into[corev1.ConfigMap](t, find(t, objects, "ConfigMap", "berth-dashboard")).Data["berth.json"]; strings.TrimSpace(got) != strings.TrimSpace(chartFile(t, "deploy/dashboards/berth.json")) {
		t.Errorf("the dashboard is not the file: %.200s", got)
	}
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	spec, err := yaml.Marshal(find(t, objects, "PrometheusRule", "berth").Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(spec, &alerts); err != nil {
		t.Fatal(err)
	}
	page, explained := chartFile(t, "docs/operations.md"), 0
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			explained++
			if !strings.Contains(page, "### "+r.Alert+"\n") || !strings.HasSuffix(r.Annotations["runbook_url"], "docs/operations.md#"+strings.ToLower(r.Alert)) {
				t.Errorf("alert %s: docs/operations.md does not explain it, or runbook_url %q leads elsewhere", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
	if explained < 8 {
		t.Errorf("only %d alerts", explained)
	}
}

// testChartEnforcement: no program can connect to the container runtime unless the values allow it.
// If they do, no user can set which plugins of the runtime a pod needs.
func testChartEnforcement(t *testing.T, helm string) {
	const policy = "placement-by-binding.berth.dev"
	mounts := func(objects []*object) bool {
		return slices.ContainsFunc(agentPod(t, objects).Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/run/nri" })
	}
	off := objectsOf(t, mustRender(t, helm, "--set=agent.enforce.nriSocket=/run/nri/nri.sock"))
	if mounts(off) || !slices.ContainsFunc(off, func(o *object) bool { return o.GetName() == policy }) {
		t.Error("authority kubelet: the runtime's socket is mounted, or users may require plugins")
	}
	on := objectsOf(t, mustRender(t, helm, "--set=agent.authority=label,agent.enforce.liftQuota=true,agent.enforce.nriSocket=/run/nri/nri.sock,agent.enforce.tolerateAnnotation=example.com/tolerate"))
	if !mounts(on) {
		t.Error("the runtime's socket is not mounted")
	}
	koordlet := objectsOf(t, mustRender(t, helm, "--set=agent.authority=berth,agent.enforcer=koordlet,agent.enforce.nriSocket=/run/nri/nri.sock"))
	if args := agentPod(t, koordlet).Containers[0].Args; mounts(koordlet) || !slices.Contains(args, "--enforcer=koordlet") {
		t.Errorf("koordlet carries out: the runtime's socket is mounted %t, %q", mounts(koordlet), args)
	}
	var rivals []string
	for _, r := range agent.DefaultRivals() {
		rivals = append(rivals, r.String())
	}
	source := chartFile(t, "cmd/berth-agent/main.go")
	args := agentPod(t, on).Containers[0].Args
	for _, arg := range args {
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); !strings.Contains(source, strconv.Quote(name)) {
			t.Errorf("berth-agent has no flag --%s", name)
		}
	}
	for _, want := range []string{"--authority=label", "--rivals=" + strings.Join(rivals, ","), "--nri-socket=/run/nri/nri.sock", "--cgroup-root=/host/sys/fs/cgroup", "--on-collision=hold", "--lift-quota"} {
		if !slices.Contains(args, want) {
			t.Errorf("%q lack %s", args, want)
		}
	}
	if text := fmt.Sprint(find(t, on, "ValidatingAdmissionPolicy", policy).Object); !strings.Contains(text, "'example.com/tolerate'") {
		t.Errorf("pods may tolerate missing plugins: %s", text)
	}
}

// testChartDevices: the agent gets the offered devices of the values, and can access the kubelet
// and the CDI specifications.
func testChartDevices(t *testing.T, helm string) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	const devices = `agent:
  devices:
  - {resource: nvidia.com/gpu, class: gpu, vendor: "10de", optional: true, cdi: {kind: nvidia.com/gpu, names: index}}
  - {resource: example.com/disk, class: nvme, addresses: ["0000:5e:00.0"]}
`
	if err := os.WriteFile(values, []byte(devices), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := objectsOf(t, mustRender(t, helm, "--set=agent.authority=label", "--values="+values))
	doc, _, err := unstructured.NestedString(find(t, objects, "ConfigMap", "berth-agent-devices").Object, "data", "devices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config, err := offer.Read("devices.yaml", []byte(doc))
	if err != nil || len(config.Resources) != 2 || config.Resources[0].CDI.Names != "index" || config.Resources[1].Addresses[0] != "0000:5e:00.0" {
		t.Errorf("the agent reads %+v, %v of\n%s", config, err, doc)
	}
	pod := agentPod(t, objects)
	for path, readOnly := range map[string]bool{"/etc/berth-devices": true, "/var/lib/kubelet/device-plugins": false, "/etc/cdi": true, "/var/run/cdi": false} {
		if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == path && m.ReadOnly == readOnly }) {
			t.Errorf("%s is not mounted with readOnly: %t", path, readOnly)
		}
	}
	if !slices.Contains(pod.Containers[0].Args, "--devices=/etc/berth-devices/devices.yaml") || !strings.Contains(chartFile(t, "cmd/berth-agent/main.go"), `"devices"`) {
		t.Errorf("the agent is not told: %q", pod.Containers[0].Args)
	}
}

// testChartFlags looks for the agent's flags in its source, and for the plugin's arguments in the
// schema.
func testChartFlags(t *testing.T, helm string) {
	source := chartFile(t, "cmd/berth-agent/main.go")
	everything := "--set=agent.debug=true,agent.kubelet.rootDir=/data/kubelet,agent.nodeResourceTopology=true,agent.kubelet.podResources=false,agent.kubelet.configDropInDir=/etc/d,agent.devicePreferences.nvidia\\.com/gpu=sorted"
	for _, values := range []string{everything, "--set=agent.kubelet.configSource=configz"} {
		args := agentPod(t, objectsOf(t, mustRender(t, helm, values))).Containers[0].Args
		for _, arg := range args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if !strings.Contains(source, strconv.Quote(name)) {
				t.Errorf("berth-agent has no flag --%s", name)
			}
		}
		for _, want := range []string{"--device-preferences=nvidia.com/gpu=sorted", "--kubelet-root-dir=/data/kubelet", "--device-plugins-dir=/var/lib/kubelet/device-plugins"} {
			if (values == everything) != slices.Contains(args, want) {
				t.Errorf("%s: got %q", values, args)
			}
		}
	}
	controller := podTemplate(t, find(t, objectsOf(t, mustRender(t, helm, "--set=controller.enabled=true,controller.schedulerNames={berth,volcano}")), "Deployment", "berth-controller"))
	source = chartFile(t, "cmd/berth-controller/main.go")
	for _, arg := range controller.Spec.Containers[0].Args {
		if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); !strings.Contains(source, strconv.Quote(name)) {
			t.Errorf("berth-controller has no flag --%s", name)
		}
	}
	if args := controller.Spec.Containers[0].Args; !slices.Contains(args, "--scheduler-names=berth,volcano") || !slices.Contains(args, "--leader-elect-namespace=berth-system") {
		t.Errorf("got %q", args)
	}
	var schema struct {
		Properties struct {
			Scheduler struct {
				Properties struct {
					Args struct{ Properties map[string]any }
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(chartFile(t, "deploy/chart/berth/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	known := schema.Properties.Scheduler.Properties.Args.Properties
	for f := range reflect.TypeFor[scheduler.Args]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "heartbeatNamespace" && known[name] == nil {
			t.Errorf("the schema lacks scheduler.args.%s", name)
		}
	}
}

func agentPod(t *testing.T, objects []*object) corev1.PodSpec {
	t.Helper()
	return podTemplate(t, find(t, objects, "DaemonSet", "berth-agent")).Spec
}

func podTemplate(t *testing.T, workload *object) corev1.PodTemplateSpec {
	t.Helper()
	template, _, err := unstructured.NestedMap(workload.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	return *into[corev1.PodTemplateSpec](t, &object{Object: template})
}

// testChartApplies applies all rendered objects, then the other kind of installation over them, as
// an upgrade does. It creates pods from the templates, because only pods pass through all of
// admission.
func testChartApplies(t *testing.T, helm string) {
	g := &guarded{t: t, cp: startControlPlane(t, controlplane.Options{})}
	g.admin = kubernetes.NewForConfigOrDie(g.cp.RESTConfig())
	if err := g.cp.Apply(t.Context(), namespaceWith("privileged")); err != nil {
		t.Fatal(err)
	}
	var objects []*object
	for _, values := range [][]string{{everyCRD, "--set=controller.enabled=true"}, {everyCRD, asDefault}, {"--set=scheduler.enabled=false,agent.kubelet.configSource=configz"}} {
		out := mustRender(t, helm, append(values, "--skip-tests")...)
		if err := g.cp.Apply(t.Context(), out); err != nil {
			t.Fatalf("values %q: %v", values, err)
		}
		if objects == nil {
			objects = objectsOf(t, out)
		}
	}
	for _, tc := range []struct {
		kind, name, level string
		ok                bool
	}{
		{"Deployment", "berth-scheduler", "restricted", true},
		{"Deployment", "berth-controller", "restricted", true},
		{"DaemonSet", "berth-agent", "baseline", false}, // host paths
		{"DaemonSet", "berth-agent", "privileged", true},
	} {
		if err := g.cp.Apply(t.Context(), namespaceWith(tc.level)); err != nil {
			t.Fatal(err)
		}
		pod := podOf(podTemplate(t, find(t, objects, tc.kind, tc.name)))
		eventually(t, fmt.Sprintf("%s in a namespace of level %s", tc.name, tc.level), func() error {
			_, err := g.admin.CoreV1().Pods("berth-system").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if (err == nil) != tc.ok {
				return fmt.Errorf("allowed is not %v: %w", tc.ok, err)
			}
			return nil
		})
	}
	testPool(t, helm, g)
	testBoundToPods(t, g)
}

func podOf(template corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName = "p-"
	return pod
}

// testBoundToPods checks that a pod's token, as the kubelet mounts it into the DaemonSet's pods,
// names the pod's node.
func testBoundToPods(t *testing.T, g *guarded) {
	for _, node := range []string{"n1", "n2"} {
		if _, err := g.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	g.waitPolicies()
	pod := plainPod("agent")
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = "n1", "berth-agent"
	pod, err := g.admin.CoreV1().Pods("berth-system").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := g.admin.CoreV1().ServiceAccounts("berth-system").CreateToken(t.Context(), "berth-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := asAgent(t, g.cp, "n1") // only the token differs
	config.BearerToken = token.Status.Token
	want(t, "the agent's pod on n1 writes n1", g.writeTopology(config, "n1", nil), true, "")
	want(t, "the agent's pod on n1 writes n2", g.writeTopology(config, "n2", nil), false, "agent of node n1")
}
