package vm

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/version"
	"github.com/berth-dev/berth/internal/wire"
)

const (
	chartNamespace = "berth-system"
	// chartRepository is the repository name of images that are imported without a registry.
	chartRepository = "localhost/berth"
)

// chartStart makes the guest a node with a pod network: a link between each pod and the node, and
// on the node the API server's cluster address, which forwards connections.
const chartStart = `mkdir -p /var/lib/kubelet/pki
cp /etc/berth/kubelet.yaml /var/lib/kubelet/config.yaml
rm -f /etc/cni/net.d/*
cat > /etc/cni/net.d/10-pods.conflist <<'END'
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": {
  "type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
ip addr add 10.0.0.1/32 dev lo
nc -ll -p 443 -e nc 10.0.2.100 6443 &
`

// chartRelease is a folder of make release.
type chartRelease struct{ dir, version, chart string }

// releaseOf reads the folder that an environment variable names.
func releaseOf(t *testing.T, variable string) chartRelease {
	t.Helper()
	dir := os.Getenv(variable)
	charts, err := filepath.Glob(filepath.Join(dir, "berth-*.tgz"))
	if err != nil || len(charts) != 1 {
		t.Fatalf("%s=%q: %d charts (%v): want the folder of a release; make e2e-vm E2E_ONLY=chart builds both", variable, dir, len(charts), err)
	}
	version := "v" + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(charts[0]), "berth-"), ".tgz")
	return chartRelease{dir, version, charts[0]}
}

// images returns the files of the release's images.
func (r chartRelease) images(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "*-"+r.version+"*.oci.tar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no images (%v)", r.dir, err)
	}
	return files
}

// tag returns the tag of a part's image for this API server. The scheduler has one build for each
// Kubernetes release.
func (r chartRelease) tag(t *testing.T, image string) string {
	t.Helper()
	for _, f := range r.images(t) {
		name, build, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f), ".oci.tar"), "-"+r.version)
		if name == image && build != "" && strings.HasPrefix(version.Base, strings.Replace(build, "-k8s", "v", 1)+".") {
			return r.version + build
		}
	}
	return r.version
}

// chartTest is a cluster on which Helm installs Berth.
type chartTest struct {
	*cluster
	machine *Machine
	env     []string
}

// TestChart does what a user does. Helm installs the last release on a node with a real kubelet and
// containerd, and scheduler and agent run as pods from the release's images. Then it upgrades to
// this tree and uninstalls, and nothing is left.
func TestChart(t *testing.T) {
	requireVM(t, "chart")
	last, this := releaseOf(t, "BERTH_LAST_RELEASE"), releaseOf(t, "BERTH_THIS_RELEASE")
	c := startChartTest(t, last, this)
	before := c.objects()
	c.namespace()

	c.helm("install", "berth", last.chart, "--set", "image.repository="+chartRepository+",scheduler.replicas=1", "--wait", "--timeout", "10m")
	report := c.report()
	c.confinedAsTheChartSays()
	c.imagesAre(last)
	first := c.placed("first", 2)
	c.helm("test", "berth", "--timeout", "5m")

	c.helm("upgrade", "berth", this.chart, "--reset-then-reuse-values", "--set", "controller.enabled=true,controller.replicas=1", "--wait", "--timeout", "10m")
	c.imagesAre(this, "controller")
	c.confinedAsTheChartSays("controller")
	if after := c.report(); after != report {
		t.Errorf("the NodeTopology is another object than before the upgrade")
	}
	if now := c.running("first"); now.UID != first.UID || now.Status.ContainerStatuses[0].ContainerID != first.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("pod first was touched by the upgrade")
	}
	c.placed("second", 3)
	c.helm("test", "berth", "--timeout", "5m")

	c.helm("uninstall", "berth", "--wait", "--timeout", "5m")
	for _, name := range []string{"first", "second"} {
		c.running(name)
	}
	c.cleanUp()
	c.nothingLeft(before)
}

func startChartTest(t *testing.T, releases ...chartRelease) *chartTest {
	t.Helper()
	c := &chartTest{cluster: newPlainCluster(t, controlplane.Options{ServiceAccounts: true})}
	access := c.File("admin", ".kubeconfig")
	if err := errors.Join(c.StartControllers(t.Context()), c.ControlPlane.WriteKubeconfig(access, controlplane.Admin)); err != nil {
		t.Fatal(err)
	}
	c.env = append(os.Environ(), "KUBECONFIG="+access)
	for _, place := range []string{"CACHE", "CONFIG", "DATA"} {
		c.env = append(c.env, "HELM_"+place+"_HOME="+filepath.Join(c.dir, "helm"))
	}
	// kube-scheduler places Berth's own pods.
	c.kubeScheduler(corev1.DefaultSchedulerName)
	c.files = map[string][]byte{"start.sh": []byte(chartStart)}
	c.archive = c.pack(releases...)
	c.machine = c.cluster.machine("vm-chart", oneByTwo, restricted)
	c.load(releases...)
	return c
}

// pack writes the images of the releases into one tar.
func (c *chartTest) pack(releases ...chartRelease) string {
	c.t.Helper()
	path := filepath.Join(c.dir, "images.tar")
	out, err := os.Create(path)
	if err != nil {
		c.t.Fatal(err)
	}
	w := tar.NewWriter(out)
	for _, r := range releases {
		for _, file := range r.images(c.t) {
			if err := addFile(w, file); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func addFile(w *tar.Writer, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: filepath.Base(path), Size: info.Size(), Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

// load imports the images into the node's containerd, under the names that the chart gives them.
func (c *chartTest) load(releases ...chartRelease) {
	c.t.Helper()
	for _, r := range releases {
		for _, file := range r.images(c.t) {
			image, _, _ := strings.Cut(filepath.Base(file), "-"+r.version)
			script := fmt.Sprintf("tar -x -O -f /dev/vdc %s | ctr -n k8s.io images import --platform linux/amd64 --base-name %s/%s -",
				filepath.Base(file), chartRepository, image)
			if out, err := c.machine.Guest.Run(c.t.Context(), script); err != nil {
				c.t.Fatalf("%s: %v\n%s", file, err, out)
			}
		}
	}
	out, err := c.machine.Guest.Run(c.t.Context(), "ctr -n k8s.io images ls -q | grep "+chartRepository)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Logf("the node has\n%s", out)
}

// helm runs Helm as an administrator.
func (c *chartTest) helm(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), os.Getenv("BERTH_HELM"), append(args, "-n", chartNamespace)...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.explain()
		c.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	fmt.Printf("== helm %s\n%s", args[0], out)
}

// explain logs the states and the logs of Berth's pods.
func (c *chartTest) explain() {
	pods, err := c.Client.CoreV1().Pods(chartNamespace).List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Log(err)
		return
	}
	for i := range pods.Items {
		c.t.Logf("pod %s: %s %+v", pods.Items[i].Name, pods.Items[i].Status.Phase, pods.Items[i].Status.ContainerStatuses)
	}
	events, err := c.Client.CoreV1().Events(chartNamespace).List(c.t.Context(), metav1.ListOptions{})
	if err == nil {
		for _, e := range events.Items {
			c.t.Logf("event of %s: %s: %s", e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	out, _ := c.machine.Guest.Run(c.t.Context(), "tail -n 30 /var/log/pods/"+chartNamespace+"_*/*/*.log")
	c.t.Logf("logs\n%s", out)
}

// namespace creates the namespace as documented, with the pod security level that the agent needs.
func (c *chartTest) namespace() {
	c.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chartNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}
	if _, err := c.Client.CoreV1().Namespaces().Create(c.t.Context(), ns, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// report waits for a Ready NodeTopology and returns its UID.
func (c *chartTest) report() types.UID {
	c.t.Helper()
	c.reported(c.machine.Name)
	c.sameTopology(c.machine)
	u, err := c.Objects.Resource(v1alpha1.NodeTopologies).Get(c.t.Context(), c.machine.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return u.GetUID()
}

// parts returns the pods of a part of the chart that are not terminating.
func (c *chartTest) parts(component string) []corev1.Pod {
	c.t.Helper()
	pods, err := c.Client.CoreV1().Pods(chartNamespace).List(c.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	if err != nil {
		c.t.Fatal(err)
	}
	left := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if len(left) == 0 {
		c.t.Fatalf("no pod of the %s", component)
	}
	return left
}

// chartParts has the parts that the chart installs by default, with their users.
var chartParts = map[string]string{"scheduler": "65532", "agent": "0"}

// imagesAre checks that the default parts, and more, run a release's images.
func (c *chartTest) imagesAre(r chartRelease, more ...string) {
	c.t.Helper()
	for _, component := range append(slices.Collect(maps.Keys(chartParts)), more...) {
		for _, p := range c.parts(component) {
			if want := chartRepository + "/berth-" + component + ":" + r.tag(c.t, "berth-"+component); p.Spec.Containers[0].Image != want {
				c.t.Errorf("pod %s has image %s, want %s", p.Name, p.Spec.Containers[0].Image, want)
			}
		}
	}
}

// confinedAsTheChartSays reads the processes' confinement from the kernel: no capabilities and no
// new privileges, filtered system calls, the chart's user, and a read-only root.
func (c *chartTest) confinedAsTheChartSays(more ...string) {
	c.t.Helper()
	for _, component := range append(slices.Collect(maps.Keys(chartParts)), more...) {
		user := cmp.Or(chartParts[component], "65532")
		for _, p := range c.parts(component) {
			_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
			script := `p=$(grep -sl ` + id + ` /proc/[0-9]*/cgroup | cut -d/ -f3 | sort -n | head -1)
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/$p/status
grep ' / / ' /proc/$p/mountinfo | cut -d' ' -f6`
			out, err := c.machine.Guest.Run(c.t.Context(), script)
			if err != nil {
				c.t.Fatal(err)
			}
			got := strings.Join(strings.Fields(out), " ")
			fmt.Printf("== %s: %s\n", p.Name, got)
			want := fmt.Sprintf("Uid: %[1]s %[1]s %[1]s %[1]s CapEff: %[2]s CapBnd: %[2]s NoNewPrivs: 1 Seccomp: 2 ro", user, strings.Repeat("0", 16))
			if !strings.HasPrefix(got, want) {
				c.t.Errorf("process of pod %s: %s\nwant %s", p.Name, got, want)
			}
		}
	}
}

// placed creates a pinned pod for Berth and checks that its process runs as its Binding says.
func (c *chartTest) placed(name string, cpus int) *corev1.Pod {
	c.t.Helper()
	pod := pinnedPod(name, cpus)
	pod.Spec.SchedulerName = "berth"
	if _, err := c.Client.CoreV1().Pods("default").Create(c.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	pod = c.running(name)
	promised, got := c.promise(pod), c.confined(c.machine, pod, "c")
	fmt.Printf("== pod %s: CPUs in the Binding %s, of the process %s\n", name, &promised.Decision.Containers[0].CPUs, got.CPUs)
	if promised.Certainty != wire.Exact || promised.Decision.Containers[0].CPUs != got.CPUs {
		c.t.Errorf("pod %s: promised %v (%v), got %v", name, promised.Decision.Containers[0].CPUs, promised.Certainty, got.CPUs)
	}
	return pod
}

// cleanUp carries out the steps of docs/install.md after helm uninstall, and deletes the test's own
// pods.
func (c *chartTest) cleanUp() {
	c.t.Helper()
	crds := c.Objects.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	kept, err := crds.List(c.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth,app.kubernetes.io/instance=berth"})
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range kept.Items {
		fmt.Printf("== kept by helm uninstall: definition %s\n", kept.Items[i].GetName())
		err = errors.Join(err, crds.Delete(c.t.Context(), kept.Items[i].GetName(), metav1.DeleteOptions{}))
	}
	for _, name := range []string{"first", "second"} {
		err = errors.Join(err, c.Client.CoreV1().Pods("default").Delete(c.t.Context(), name, metav1.DeleteOptions{}))
	}
	err = errors.Join(err, c.Client.CoreV1().Namespaces().Delete(c.t.Context(), chartNamespace, metav1.DeleteOptions{}))
	if err != nil {
		c.t.Fatal(err)
	}
}

// objects lists every object of the cluster except events, which expire.
func (c *chartTest) objects() map[string]bool {
	c.t.Helper()
	out, err := c.listed(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *chartTest) listed(ctx context.Context) (map[string]bool, error) {
	config := c.ControlPlane.RESTConfig()
	config.QPS = -1 // some seventy lists, one after the other
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := discovery.ServerPreferredResources(c.Client.Discovery())
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" || r.Name == "componentstatuses" {
				continue
			}
			objects, err := client.Resource(group.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // the kind's definition was just deleted
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
			for _, o := range objects.Items {
				out[strings.Trim(r.Name+"."+group.Group, ".")+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")] = true
			}
		}
	}
	return out, nil
}

// nothingLeft waits until the cluster has no object that it did not have before. The node needs
// time to stop pods, so the limit is extended whenever the number of objects falls.
func (c *chartTest) nothingLeft(before map[string]bool) {
	c.t.Helper()
	var now map[string]bool
	defer func() {
		if len(now) > 0 {
			c.t.Logf("left: %s", strings.Join(slices.Sorted(maps.Keys(now)), ", "))
		}
	}()
	c.eventuallyProgress("nothing of Berth is left", func(ctx context.Context) (int, error) {
		all, err := c.listed(ctx)
		if err != nil {
			return len(now), err
		}
		maps.DeleteFunc(all, func(name string, _ bool) bool { return before[name] })
		now = all
		return len(now), nil
	})
}
