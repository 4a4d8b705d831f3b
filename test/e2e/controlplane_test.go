package e2e

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/version"
)

func startControlPlane(t *testing.T, opts controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	opts.Server = otherServer
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	begun := time.Now()
	cp, err := controlplane.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(begun).Round(10*time.Millisecond))
	atEnd(t, cp.Stop)
	return cp
}

// otherServer is the program of a kube-apiserver of another release, for make e2e-versions. With ""
// tests use the linked one.
var otherServer = os.Getenv("BERTH_APISERVER")

// client returns a clientset with the credentials of a kubeconfig file, as another process would
// use it.
func client(t *testing.T, cp *controlplane.ControlPlane, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	kubeconfig, err := cp.Kubeconfig(user, groups)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestControlPlane(t *testing.T) {
	t.Parallel()
	cp := startControlPlane(t, controlplane.Options{})
	t.Run("version", func(t *testing.T) { testVersion(t, cp) })
	t.Run("loopback only", func(t *testing.T) { testLoopbackOnly(t, cp) })
	t.Run("RBAC", func(t *testing.T) { testRBAC(t, cp) })
	t.Run("node authorizer", func(t *testing.T) { testNodeAuthorizer(t, cp) })
	t.Run("CRD", func(t *testing.T) { testCRD(t, cp) })
	t.Run("validating admission policy", func(t *testing.T) { testPolicy(t, cp) })
	t.Run("pod", func(t *testing.T) { testPodOnControlPlane(t, cp) })
	t.Run("bad manifests", func(t *testing.T) { testBadManifests(t, cp) })
	t.Run("stop cuts clients off", func(t *testing.T) { testCutsClientsOff(t, cp) })
}

func testVersion(t *testing.T, cp *controlplane.ControlPlane) {
	v, err := kubernetes.NewForConfigOrDie(cp.RESTConfig()).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if otherScheduler != "" {
		want, err := exec.CommandContext(t.Context(), otherScheduler, "--version").Output()
		if got, same := runToEnd(t, "--version"); err != nil || same != nil || got != string(want) {
			t.Errorf("scheduler is %q (%v), its program %q (%v)", got, same, want, err)
		}
	}
	if otherServer != "" {
		want, err := exec.CommandContext(t.Context(), otherServer, "--version").Output()
		if err != nil || strings.TrimSpace(string(want)) != "Kubernetes "+v.GitVersion {
			t.Errorf("server is %s, its program %q (%v)", v.GitVersion, want, err)
		}
		return
	}
	if got := "v" + v.Major + "." + v.Minor + "."; !strings.HasPrefix(version.Base, got) {
		t.Errorf("server is %s, want %s", got, version.Base)
	}
}

func testLoopbackOnly(t *testing.T, cp *controlplane.ControlPlane) {
	host, _, err := net.SplitHostPort(cp.Addr())
	if err != nil || host != "127.0.0.1" {
		t.Errorf("server is at %q, want 127.0.0.1", cp.Addr())
	}
}

func testRBAC(t *testing.T, cp *controlplane.ControlPlane) {
	ctx := context.Background()
	alice := client(t, cp, "alice", "readers")
	if _, err := alice.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a user without a binding lists pods: want Forbidden, got %v", err)
	}
	rules := []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pod-reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: pod-readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: pod-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}]
`)
	if err := cp.Apply(ctx, rules); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the group's binding lets the user list pods", func() error {
		_, err := alice.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if _, err := alice.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a reader creates a pod: want Forbidden, got %v", err)
	}
}

func testNodeAuthorizer(t *testing.T, cp *controlplane.ControlPlane) {
	ctx := context.Background()
	n1 := client(t, cp, "system:node:n1", "system:nodes")
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	if _, err := n1.CoreV1().Nodes().Create(ctx, node("n1"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a node registers itself: %v", err)
	}
	if _, err := n1.CoreV1().Nodes().Create(ctx, node("n2"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a node registers another one: want Forbidden, got %v", err)
	}
}

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.test}
spec:
  group: example.test
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, maximum: 3}}}}
`

func testCRD(t *testing.T, cp *controlplane.ControlPlane) {
	ctx := context.Background()
	if err := cp.Apply(ctx, []byte(widgets)); err != nil {
		t.Fatal(err)
	}
	widget := func(name string, size int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.test/v1", "kind": "Widget",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
		}}
	}
	c := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(schema.GroupVersionResource{Group: "example.test", Version: "v1", Resource: "widgets"})
	eventually(t, "a custom resource is stored", func() error {
		_, err := c.Create(ctx, widget("small", 2), metav1.CreateOptions{})
		return err
	})
	if _, err := c.Create(ctx, widget("large", 4), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a resource against the schema: want Invalid, got %v", err)
	}
}

func testPolicy(t *testing.T, cp *controlplane.ControlPlane) {
	ctx := context.Background()
	policy := []byte(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: only-bob-makes-maps}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "request.userInfo.username == 'bob'", message: "only bob"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: only-bob-makes-maps}
spec: {policyName: only-bob-makes-maps, validationActions: [Deny]}
`)
	if err := cp.Apply(ctx, policy); err != nil {
		t.Fatal(err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}
	eve := client(t, cp, "eve", "system:masters")
	eventually(t, "the policy refuses others", func() error {
		_, err := eve.CoreV1().ConfigMaps("default").Create(ctx, configMap, metav1.CreateOptions{})
		if err == nil {
			return errors.New("created")
		}
		if !strings.Contains(err.Error(), "only bob") {
			return err
		}
		return nil
	})
	bob := client(t, cp, "bob", "system:masters")
	if _, err := bob.CoreV1().ConfigMaps("default").Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
		t.Errorf("bob may: %v", err)
	}
}

func testPodOnControlPlane(t *testing.T, cp *controlplane.ControlPlane) {
	ctx := context.Background()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "plain"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}}},
	}
	got, err := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a pod without a service account: %v", err)
	}
	if got.Status.QOSClass != corev1.PodQOSGuaranteed {
		t.Errorf("QoS class is %q, want Guaranteed", got.Status.QOSClass)
	}
}

func testBadManifests(t *testing.T, cp *controlplane.ControlPlane) {
	for _, tc := range []struct{ name, manifest, want string }{
		{"no name", "apiVersion: v1\nkind: Namespace", `metadata.name "": want both`},
		{"no YAML", "\t:", "manifest:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := cp.Apply(context.Background(), []byte(tc.manifest))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// eventually retries f, because caches of the API server delay RBAC rules, policies and new
// resources.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// aloneVariable is set in the environment of a test that runs in its own process.
const aloneVariable = "BERTH_TEST_ALONE"

// alone runs a test that checks the whole process in a new process, parallel to other tests. It
// returns true in that process. env is added to the environment.
func alone(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(aloneVariable) != "" {
		return true
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), aloneVariable+"=1"), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in its own process: %v", err)
	}
	return false
}

// TestControlPlaneLeavesNothingBehind starts and stops twice: the directory is gone, the port is
// closed, and the second round does not add goroutines to the few that the first leaves.
func TestControlPlaneLeavesNothingBehind(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	round := func() int {
		cp := startControlPlane(t, controlplane.Options{Dir: dir})
		addr := cp.Addr()
		if err := cp.Stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("left in the directory: %v", left)
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s still accepts connections", addr)
		}
		return settledGoroutines()
	}
	first, second := round(), round()
	for begun := time.Now(); second > first+leakAllowance && time.Since(begun) < patience; {
		second = settledGoroutines()
	}
	t.Logf("goroutines after the first round %d, after the second %d", first, second)
	if second > first+leakAllowance {
		buf := make([]byte, 1<<20)
		t.Errorf("goroutines grew from %d to %d:\n%s", first, second, buf[:runtime.Stack(buf, true)])
	}
}

// leakAllowance is the number of goroutines of a kube-apiserver that cannot be stopped.
const leakAllowance = 0

// settledGoroutines returns the number of goroutines when it no longer falls.
func settledGoroutines() int {
	n, since := runtime.NumGoroutine(), time.Now()
	for time.Since(since) < 2*time.Second {
		time.Sleep(50 * time.Millisecond)
		if m := runtime.NumGoroutine(); m < n {
			n, since = m, time.Now()
		}
	}
	return n
}

// requestTimeout is how long the server waits for an open watch by default.
const requestTimeout = time.Minute

// testCutsClientsOff stops the control plane during an open watch.
func testCutsClientsOff(t *testing.T, cp *controlplane.ControlPlane) {
	c := client(t, cp, "watcher", "system:masters")
	w, err := c.CoreV1().Pods("default").Watch(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	begun := time.Now()
	if err := cp.Stop(); err != nil {
		t.Error(err)
	}
	if d := time.Since(begun); d >= requestTimeout {
		t.Errorf("stopping took %v: the server has waited for the watch", d)
	}
}

func TestControlPlaneStartCanBeCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir}); err == nil {
		cp.Stop()
		t.Fatal("started with a cancelled context")
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestControlPlaneBadOptions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		opts controlplane.Options
		want string
	}{
		{"directory too deep for a socket", controlplane.Options{Dir: deep(t)}, "shorter Options.Dir"},
		{"unknown flag", controlplane.Options{Flags: []string{"--no-such-flag"}}, "no-such-flag"},
		{"no directory", controlplane.Options{Dir: "/nonexistent"}, "temporary directory"},
		{"kept key material that is not whole", controlplane.Options{Keep: halfKept(t)}, "-ca.crt"},
		{"a server that is not there", controlplane.Options{Server: "/nonexistent"}, "/nonexistent"},
		{"a server that is none", controlplane.Options{Server: "/bin/false"}, "kube-apiserver ended by itself: exit status 1"},
		{"a file where a directory is to be kept", controlplane.Options{Keep: "/dev/null"}, "directory to be kept"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cp, err := controlplane.Start(context.Background(), tc.opts)
			if err == nil {
				cp.Stop()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func halfKept(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func deep(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestControlPlaneContinues starts a control plane on the data of an earlier one. Objects, URL, CAs
// and service account tokens are the same, and an earlier kubeconfig works.
func TestControlPlaneContinues(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	opts := controlplane.Options{Keep: filepath.Join(t.TempDir(), "kept")}
	first := startControlPlane(t, opts)
	c := client(t, first, "someone", "system:masters")
	made, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	withToken, err := first.TokenConfig(ctx, "default", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := startControlPlane(t, opts)
	if second.Addr() != first.Addr() {
		t.Errorf("the server is at %s, want %s as before", second.Addr(), first.Addr())
	}
	got, err := c.CoreV1().ConfigMaps("default").Get(ctx, "m", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != made.UID || got.Data["k"] != "v" || got.ResourceVersion != made.ResourceVersion {
		t.Errorf("found %+v, want %+v", got, made)
	}
	other := client(t, second, "someone else", "system:masters")
	if _, err := other.CoreV1().ConfigMaps("default").Update(ctx, got, metav1.UpdateOptions{}); err != nil {
		t.Errorf("new credentials: %v", err)
	}
	if _, err := kubernetes.NewForConfigOrDie(withToken).CoreV1().ConfigMaps("default").Get(ctx, "m", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the token of before, without rights: want Forbidden, got %v", err)
	}
}

// TestControlPlaneWithEtcdElsewhere stops only the API server, and then only etcd.
func TestControlPlaneWithEtcdElsewhere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	etcd, err := controlplane.StartEtcd(ctx, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Stop() }) // the etcd that runs at the end
	opts := controlplane.Options{Keep: dir, Etcd: etcd.URL()}
	first := startControlPlane(t, opts)
	c := client(t, first, "someone", "system:masters")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	startControlPlane(t, opts)
	if _, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	etcd.Stop()
	if etcd, err = controlplane.StartEtcd(ctx, dir, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server finds etcd again", func() error {
		_, err := c.CoreV1().ConfigMaps("default").Get(ctx, "m", metav1.GetOptions{})
		return err
	})
}
