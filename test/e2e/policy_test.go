package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	nrt "github.com/berth-dev/berth/api/nrt/v1alpha2"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/wire"
)

// guarded is a control plane with all objects of an installation, with clients and its own nodes n0
// to n3.
type guarded struct {
	t     *testing.T
	cp    *controlplane.ControlPlane
	admin kubernetes.Interface
}

func newGuarded(t *testing.T, cp *controlplane.ControlPlane) *guarded {
	t.Helper()
	g := &guarded{t: t, cp: cp, admin: kubernetes.NewForConfigOrDie(cp.RESTConfig())}
	for _, name := range []string{"n1", "n2"} {
		if _, err := g.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	g.waitPolicies()
	return g
}

// waitPolicies waits until the API server enforces both policies.
func (g *guarded) waitPolicies() {
	g.t.Helper()
	err := wait.PollUntilContextTimeout(g.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		pod := plainPod("probe")
		pod.Annotations = map[string]string{wire.PlacementAnnotation: "{}"}
		_, err := g.admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return false, nil
		}
		return g.writeTopology(g.almighty(), "n0", nil) != nil, nil
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *guarded) user(name string, groups ...string) *rest.Config {
	g.t.Helper()
	c, err := g.cp.UserConfig(name, groups)
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// agent returns the credentials of a node's agent.
func (g *guarded) agent(node string) *rest.Config {
	g.t.Helper()
	return asAgent(g.t, g.cp, node)
}

// unbound impersonates the agent's service account with a token that is bound to no node.
func (g *guarded) unbound() *rest.Config {
	c := g.cp.RESTConfig()
	c.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:berth-system:berth-agent", Groups: []string{"system:serviceaccounts"}}
	return c
}

// writeTopology applies a minimal NodeTopology, changed by change.
func (g *guarded) writeTopology(c *rest.Config, node string, change func(map[string]any)) error {
	object := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeTopology", "metadata": map[string]any{"name": node},
		"spec":   map[string]any{"machine": "numa:1 core:2", "authority": "kubelet", "kubeletVersion": "v1.36.3"},
		"status": map[string]any{"sharedCPUs": "0-1"},
	}
	if change != nil {
		change(object)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = dynamic.NewForConfigOrDie(c).Resource(v1alpha1.NodeTopologies).Patch(g.t.Context(), node, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "test", Force: new(true)})
	return err
}

func (g *guarded) writeLease(c *rest.Config, name string) error {
	lease := coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	data, err := json.Marshal(&lease)
	if err != nil {
		return err
	}
	_, err = kubernetes.NewForConfigOrDie(c).CoordinationV1().Leases(v1alpha1.HeartbeatNamespace).Patch(g.t.Context(), name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: "test", Force: new(true)})
	return err
}

// want fails the test unless err is as expected: nil if ok is true, otherwise a refusal that
// contains text.
func want(t *testing.T, what string, err error, ok bool, text string) {
	t.Helper()
	switch {
	case ok && err != nil:
		t.Errorf("%s: refused: %v", what, err)
	case !ok && err == nil:
		t.Errorf("%s: allowed", what)
	case !ok && (!apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text)):
		t.Errorf("%s: got error %v, want a refusal with %q", what, err, text)
	}
}

func plainPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}
}

func testPolicies(t *testing.T, cp *controlplane.ControlPlane) {
	g := newGuarded(t, cp)
	t.Run("agents write their own node's objects", g.testOwnNode)
	t.Run("agents send their own node's heartbeat", g.testHeartbeats)
	t.Run("agents may do no more", g.testLeastPrivilege)
	t.Run("placements come with the Binding alone", g.testPlacement)
	t.Run("what Berth has placed is resized by a decision", g.testResize)
	t.Run("a newer decision is the scheduler's", g.testGeneration)
	t.Run("annotations that nobody reads are warned of", g.testWarnings)
	t.Run("the schema bounds reports", g.testSchema)
	t.Run("who may view pods may view reports", g.testViewer)
}

// warnings are the warnings that a client has received.
type warnings []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// testWarnings writes annotations as users do, and reads what kubectl would print.
func (g *guarded) testWarnings(t *testing.T) {
	var got warnings
	config := rest.CopyConfig(g.cp.RESTConfig())
	config.WarningHandler = &got
	client := kubernetes.NewForConfigOrDie(config)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	create := func(scheduler string, keys ...string) []string {
		got = nil
		pod := plainPod("warned")
		pod.Spec.SchedulerName = scheduler
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		for _, key := range keys {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, "restricted")
		}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, dry); err != nil {
			t.Errorf("%q: refused: %v", keys, err)
		}
		return got
	}
	const misspelt, koordinator = "berth.dev/polcy", "scheduling.koordinator.sh/gpu-partition-spec"
	eventually(t, "a warning of "+misspelt, func() error {
		text := strings.Join(create("berth", misspelt), "; ")
		if !strings.Contains(text, misspelt) || !strings.Contains(text, "want "+wire.PolicyAnnotation) {
			return fmt.Errorf("warned %q", text)
		}
		return nil
	})
	if text := strings.Join(create("berth", koordinator), "; "); !strings.Contains(text, koordinator) || !strings.Contains(text, "Koordinator") {
		t.Errorf("warned %q of %s", text, koordinator)
	}
	for scheduler, key := range map[string]string{"koord-scheduler": koordinator, "berth": wire.PolicyAnnotation} {
		if text := create(scheduler, key); len(text) > 0 {
			t.Errorf("scheduler %s, %s: warned %q", scheduler, key, text)
		}
	}
	got = nil
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{misspelt: "x"}}, Spec: plainPod("").Spec}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "warned"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: template}}
	if _, err := client.AppsV1().Deployments("default").Create(t.Context(), d, dry); err != nil || len(got) != 1 {
		t.Errorf("a Deployment with %s: error %v, warned %q", misspelt, err, got)
	}
}

func (g *guarded) testOwnNode(t *testing.T) {
	n1, n2 := g.agent("n1"), g.agent("n2")
	want(t, "n1 creates n1", g.writeTopology(n1, "n1", nil), true, "")
	want(t, "n2 changes n1", g.writeTopology(n2, "n1", nil), false, "the agent of node n2 may write only that node's objects, not n1")
	want(t, "n1 creates n2", g.writeTopology(n1, "n2", nil), false, "agent of node n1")
	want(t, "n2 creates n2", g.writeTopology(n2, "n2", nil), true, "")
	want(t, "an agent with an unbound token", g.writeTopology(g.unbound(), "n1", nil), false, "an agent whose token is bound to no node may not write n1")
	want(t, "a kubelet", g.writeTopology(g.user("system:node:n1", "system:nodes"), "n1", nil), false, "nodetopologies")
	want(t, "the scheduler", g.writeTopology(g.user("system:kube-scheduler"), "n1", nil), false, "nodetopologies")
	want(t, "somebody with every role", g.writeTopology(g.almighty(), "n1", nil), false, "only the agent of the node")
	want(t, "an administrator", g.writeTopology(g.cp.RESTConfig(), "n1", nil), true, "")
}

func (g *guarded) testHeartbeats(t *testing.T) {
	n1 := g.agent("n1")
	want(t, "n1 beats for n1", g.writeLease(n1, v1alpha1.HeartbeatName("n1")), true, "")
	want(t, "n1 beats for n2", g.writeLease(n1, v1alpha1.HeartbeatName("n2")), false, "agent of node n1")
	want(t, "n1 takes a leader's lease", g.writeLease(n1, "berth-scheduler"), false, "agent of node n1")
	want(t, "somebody with every role beats for n1", g.writeLease(g.almighty(), v1alpha1.HeartbeatName("n1")), false, "only the agent of the node")
	want(t, "somebody with every role takes a leader's lease", g.writeLease(g.almighty(), "berth-scheduler"), true, "")
}

// almighty has the role cluster-admin, but is not in the group that the policies exempt.
func (g *guarded) almighty() *rest.Config {
	g.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "almighty"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "almighty"}}}
	if _, err := g.admin.RbacV1().ClusterRoleBindings().Create(g.t.Context(), binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		g.t.Fatal(err)
	}
	return g.user("almighty")
}

// testLeastPrivilege tries actions that the service accounts do not need.
func (g *guarded) testLeastPrivilege(t *testing.T) {
	c := kubernetes.NewForConfigOrDie(g.agent("n1"))
	ctx := t.Context()
	_, err := c.CoreV1().Pods("default").Create(ctx, plainPod("a"), metav1.CreateOptions{})
	want(t, "create a pod", err, false, "pods")
	_, err = c.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
	want(t, "list secrets", err, false, "secrets")
	_, err = c.CoreV1().Nodes().UpdateStatus(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.UpdateOptions{})
	want(t, "change a node", err, false, "nodes")
	err = dynamic.NewForConfigOrDie(g.agent("n1")).Resource(v1alpha1.NodeTopologies).Delete(ctx, "n1", metav1.DeleteOptions{})
	want(t, "delete a report", err, false, "nodetopologies")
	_, err = c.CoordinationV1().Leases("kube-system").List(ctx, metav1.ListOptions{})
	want(t, "list leases elsewhere", err, false, "leases")
	_, err = c.CoreV1().ServiceAccounts("berth-system").CreateToken(ctx, "berth-scheduler", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	want(t, "make a token of another account", err, false, "serviceaccounts")
	_, err = c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
	want(t, "list its pods", err, true, "")
}

func (g *guarded) bind(c *rest.Config, pod *corev1.Pod, annotation string) error {
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: "default", UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	if annotation != "" {
		b.Annotations = map[string]string{wire.PlacementAnnotation: annotation}
	}
	return kubernetes.NewForConfigOrDie(c).CoreV1().Pods("default").Bind(g.t.Context(), b, metav1.CreateOptions{})
}

func (g *guarded) testPlacement(t *testing.T) {
	ctx, pods := t.Context(), g.admin.CoreV1().Pods("default")
	scheduler := g.user("system:kube-scheduler")
	forged := plainPod("forged")
	forged.Annotations = map[string]string{wire.PlacementAnnotation: `{"v":1}`}
	_, err := pods.Create(ctx, forged, metav1.CreateOptions{})
	want(t, "create a pod with a placement", err, false, "comes with the Binding")

	a, err := pods.Create(ctx, plainPod("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(name, value, subresource string) error {
		text := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, wire.PlacementAnnotation, value)
		var sub []string
		if subresource != "" {
			sub = []string{subresource}
		}
		_, err := pods.Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, sub...)
		return err
	}
	want(t, "add a placement", patch("a", `"x"`, ""), false, "cannot be added")
	want(t, "add a placement through the status", patch("a", `"x"`, "status"), false, "cannot be added")
	want(t, "an administrator binds with a placement", g.bind(g.cp.RESTConfig(), a, `{"v":1}`), false, "only the scheduler may write")
	for _, subresource := range []string{"resize", "ephemeralcontainers"} { // these drop annotations without an error
		err := patch("a", `"x"`, subresource)
		if got, getErr := pods.Get(ctx, "a", metav1.GetOptions{}); getErr != nil || got.Annotations[wire.PlacementAnnotation] != "" {
			t.Errorf("add a placement through %s: %v, and the pod has %v, %v", subresource, err, got.Annotations, getErr)
		}
	}
	err = g.admin.CoreV1().RESTClient().Post().Namespace("default").Resource("bindings").Body(&corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{wire.PlacementAnnotation: `{"v":1}`}}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}).Do(ctx).Error()
	want(t, "an administrator binds with a placement, the old way", err, false, "only the scheduler may write")
	want(t, "an agent binds", g.bind(g.agent("n1"), a, `{"v":1}`), false, "pods")
	want(t, "the scheduler binds with a placement", g.bind(scheduler, a, `{"v":1}`), true, "")
	got, err := pods.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || got.Annotations[wire.PlacementAnnotation] != `{"v":1}` || got.Spec.NodeName != "n1" {
		t.Errorf("bound pod: %v, error %v", got, err)
	}
	want(t, "change a placement", patch("a", `"x"`, ""), false, "cannot be added, changed or removed")
	want(t, "remove a placement", patch("a", `null`, ""), false, "cannot be added, changed or removed")
	want(t, "remove a placement through the status", patch("a", `null`, "status"), false, "cannot be added, changed or removed")
	_, err = pods.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"other":"x"}}}`), metav1.PatchOptions{})
	want(t, "change another annotation", err, true, "")
	_, err = pods.Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	want(t, "change the status", err, true, "")

	b, err := pods.Create(ctx, plainPod("b"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "anybody binds without a placement", g.bind(g.cp.RESTConfig(), b, ""), true, "")
}

// testResize: where Berth decides, only resizes with a new decision are allowed. Where the kubelet
// decides, the kubelet answers, and users get a warning about pinned resources.
func (g *guarded) testResize(t *testing.T) {
	var got warnings
	config := rest.CopyConfig(g.cp.RESTConfig())
	config.WarningHandler = &got
	ctx, pods := t.Context(), kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default")
	_, err := g.admin.CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType, []byte(`{"status":{"allocatable":{"cpu":"8","memory":"8Gi"}}}`), metav1.PatchOptions{}, "status")
	if err != nil { // the API server first checks the node's size (plugin/pkg/admission/podresize)
		t.Fatal(err)
	}
	for name, placement := range map[string]string{"obeyed": `{"v":1,"authority":"berth"}`, "koordlet": `{"v":1,"authority":"berth","enforcer":"koordlet"}`, "predicted": `{"v":1}`, "pinned": `{"v":1,"containers":[{"cpus":"2-3"}]}`} {
		pod := plainPod(name)
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		}
		pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "bind "+name, g.bind(g.user("system:kube-scheduler"), pod, placement), true, "")
		for _, cpus := range []string{"1", "1500m", "2000m", "3"} {
			patch := fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":%q},"limits":{"cpu":%[2]q}}}]}}`, pod.Spec.Containers[0].Name, cpus)
			got = nil
			_, err := pods.Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
			switch {
			case name == "koordlet" && cpus != "2000m":
				want(t, "resize "+name+" to "+cpus, err, false, "want cpu and memory as they are")
			case name == "obeyed" && cpus == "1500m":
				want(t, "resize "+name+" to "+cpus, err, false, "only between whole numbers")
			default:
				want(t, "resize "+name+" to "+cpus, err, true, "")
			}
			if warned := strings.Contains(strings.Join(got, "; "), "the kubelet has pinned cpu of this pod"); warned != (name == "pinned") {
				t.Errorf("resize %s to %s: warned %q", name, cpus, got)
			}
		}
	}
}

// testGeneration: only the scheduler can replace a decision by a newer one, and only with the
// amounts that the kubelet has allocated.
func (g *guarded) testGeneration(t *testing.T) {
	ctx, pods := t.Context(), g.admin.CoreV1().Pods("default")
	pod := plainPod("refitted")
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: two, Limits: two}
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := pod.Spec.Containers[0].Name
	decision := func(generation int, asks string) string {
		return fmt.Sprintf(`{"v":1,"seq":1,"uid":%q,"gen":%d,"asks":%q,"authority":"berth","containers":[]}`, pod.UID, generation, asks)
	}
	want(t, "bind it", g.bind(g.user("system:kube-scheduler"), pod, `{"v":1,"authority":"berth"}`), true, "")
	allocate := fmt.Sprintf(`{"status":{"containerStatuses":[{"name":%q,"image":"x","imageID":"x","ready":true,"restartCount":0,"allocatedResources":{"cpu":"3","memory":"1Gi"}}]}}`, name)
	if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(allocate), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	write := func(user, subresource, text string) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{wire.PlacementAnnotation: text}}})
		if err != nil {
			t.Fatal(err)
		}
		var sub []string
		if subresource != "" {
			sub = append(sub, subresource)
		}
		client := pods
		if user != "" {
			client = kubernetes.NewForConfigOrDie(g.user(user)).CoreV1().Pods("default")
		}
		_, err = client.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, sub...)
		return err
	}
	const scheduler, refused = "system:kube-scheduler", "except by the scheduler for what the kubelet has allocated"
	good := decision(2, name+" 3000m 1073741824")
	want(t, "an administrator decides", write("", "status", good), false, refused)
	want(t, "the scheduler decides for more", write(scheduler, "status", decision(2, name+" 4000m 1073741824")), false, refused)
	want(t, "the scheduler decides", write(scheduler, "status", good), true, "")
	want(t, "it decides the same again", write(scheduler, "status", decision(3, name+" 3000m 1073741824")), false, refused)
	want(t, "it goes back", write(scheduler, "status", decision(1, name+" 2000m 1073741824")), false, refused)
}

func (g *guarded) testSchema(t *testing.T) {
	status := func(change func(map[string]any)) func(map[string]any) {
		return func(o map[string]any) { change(o["status"].(map[string]any)) }
	}
	many := func(n int, item any) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = item
		}
		return out
	}
	for _, tc := range []struct {
		name, text string
		change     func(map[string]any)
	}{
		{"pods without end", "must have at most 1024 items", status(func(s map[string]any) { s["pods"] = many(20_000, "u") })},
		{"devices without end", "must have at most 1024 items", status(func(s map[string]any) {
			s["devices"] = []any{map[string]any{"resource": "x.y/z", "groups": []any{map[string]any{"ids": many(1_000, "d"), "numa": "0"}, map[string]any{"ids": many(2_000, "d")}}}}
		})},
		{"endless machine", "may not be more than 65536 bytes", func(o map[string]any) { o["spec"].(map[string]any)["machine"] = strings.Repeat("x", 65537) }},
		{"CPU list", "status.sharedCPUs", status(func(s map[string]any) { s["sharedCPUs"] = "0-1;" })},
		{"NUMA node", "status.memory[0].numa", status(func(s map[string]any) { s["memory"] = []any{map[string]any{"numa": 64, "resources": []any{}}} })},
		{"negative size", "status.memory[0].resources[0].allocatable", status(func(s map[string]any) {
			s["memory"] = []any{map[string]any{"numa": 0, "resources": []any{map[string]any{"resource": "memory", "allocatable": -1}}}}
		})},
		{"pod without a word", "status.pods[0]", status(func(s map[string]any) { s["pods"] = []any{""} })},
		{"endless pod", "status.pods[0]", status(func(s map[string]any) { s["pods"] = []any{strings.Repeat("x", 65537)} })},
		{"authority", "spec.authority", func(o map[string]any) { o["spec"].(map[string]any)["authority"] = "me" }},
		{"version", "spec.kubeletVersion", func(o map[string]any) { o["spec"].(map[string]any)["kubeletVersion"] = "1.36" }},
		{"no spec", "spec", func(o map[string]any) { delete(o, "spec") }},
	} {
		begun := time.Now()
		want(t, tc.name, g.writeTopology(g.cp.RESTConfig(), "n3", tc.change), false, tc.text)
		t.Logf("%s: refused after %v", tc.name, time.Since(begun).Round(time.Millisecond))
	}
	sequence := func(n int) func(map[string]any) { return status(func(s map[string]any) { s["sequence"] = n }) }
	want(t, "report 5", g.writeTopology(g.cp.RESTConfig(), "n3", sequence(5)), true, "")
	want(t, "report 4 after 5", g.writeTopology(g.cp.RESTConfig(), "n3", sequence(4)), false, "never goes back")
	want(t, "report 6", g.writeTopology(g.cp.RESTConfig(), "n3", sequence(6)), true, "")
	want(t, "the last number there is", g.writeTopology(g.cp.RESTConfig(), "n3", sequence(math.MaxInt64)), false, "must not run out")
}

// testViewer checks that the cluster role view includes berth-viewer, which the controller manager
// aggregates by its label, and that it allows only reading.
func (g *guarded) testViewer(t *testing.T) {
	roles := g.admin.RbacV1().ClusterRoles()
	view, err := roles.Get(t.Context(), "view", metav1.GetOptions{})
	if err != nil || view.AggregationRule == nil {
		t.Fatalf("the role view: %v, %v", view, err)
	}
	viewer, err := roles.Get(t.Context(), "berth-viewer", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taken := false
	for _, s := range view.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&s)
		if err != nil {
			t.Fatal(err)
		}
		taken = taken || selector.Matches(labels.Set(viewer.Labels))
	}
	if !taken {
		t.Errorf("view takes in %+v, and berth-viewer has the labels %v", view.AggregationRule, viewer.Labels)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "onlooker"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "berth-viewer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "onlooker"}}}
	if _, err := g.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := dynamic.NewForConfigOrDie(g.user("onlooker"))
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	for _, resource := range []schema.GroupVersionResource{v1alpha1.NodeTopologies, nrt.NodeResourceTopologies, leases} {
		eventually(t, "an onlooker's rights", func() error {
			_, err := c.Resource(resource).List(t.Context(), metav1.ListOptions{})
			return err
		})
	}
	want(t, "an onlooker writes", g.writeTopology(g.user("onlooker"), "n1", nil), false, "nodetopologies")
	_, err = kubernetes.NewForConfigOrDie(g.user("onlooker")).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	want(t, "an onlooker lists nodes", err, false, "nodes")
}
