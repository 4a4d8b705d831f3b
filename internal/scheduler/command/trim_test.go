package command

import (
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// TestNodesAreTrimmed: the informer gives a Node without what is not asked for, and other objects
// as they are.
func TestNodesAreTrimmed(t *testing.T) {
	some := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"}},
		Spec:       corev1.NodeSpec{ProviderID: "p", Taints: []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Allocatable: some, Images: []corev1.ContainerImage{{Names: []string{"i"}}}, DeclaredFeatures: []string{"F"},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"}, RuntimeHandlers: []corev1.NodeRuntimeHandler{{Name: "h"}},
		},
	}
	whole := want.DeepCopy()
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	s := &whole.Status
	s.Capacity, s.Conditions = some, []corev1.NodeCondition{{Type: corev1.NodeReady}}
	s.Addresses, s.VolumesInUse = []corev1.NodeAddress{{Address: "a"}}, []corev1.UniqueVolumeName{"v"}
	s.VolumesAttached = []corev1.AttachedVolume{{Name: "v"}}

	shared := informers.NewSharedInformerFactory(fake.NewClientset(whole), 0)
	if err := trimNodes(shared); err != nil {
		t.Fatal(err)
	}
	nodes := shared.Core().V1().Nodes()
	shared.StartWithContext(t.Context())
	cache.WaitForCacheSync(t.Context().Done(), nodes.Informer().HasSynced)
	got, err := nodes.Lister().Get("n")
	if err != nil || !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := trimNodes(shared); err == nil {
		t.Error("an informer that runs takes it, too late")
	}
	gone := cache.DeletedFinalStateUnknown{Key: "n"}
	if obj, err := trimmed(gone); err != nil || obj != any(gone) {
		t.Errorf("%v became %v, %v", gone, obj, err)
	}
}

// TestNobodyAsksForWhatIsTrimmed reads kube-scheduler. Only its event of changed conditions goes by
// such a field, and no plugin has asked for that event.
func TestNobodyAsksForWhatIsTrimmed(t *testing.T) {
	kube, err := build.Import("k8s.io/kubernetes/pkg/scheduler", ".", build.FindOnly)
	if err != nil {
		t.Fatal(err)
	}
	asks := regexp.MustCompile(`(?i)node\w*(\(\))?\.Status\.(Capacity|Conditions|Addresses|Volumes\w+)|UpdateNodeCondition`)
	lawful := map[string]int{"framework/events.go": 3, "framework/types.go": 1}
	read := 0
	err = filepath.WalkDir(kube.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testing/") {
			return err
		}
		content, err := os.ReadFile(path)
		read++
		name, _ := filepath.Rel(kube.Dir, path)
		if found := asks.FindAll(content, -1); len(found) != lawful[filepath.ToSlash(name)] {
			t.Errorf("%s: %q, want %d", name, found, lawful[name])
		}
		return err
	})
	if err != nil || read < 100 {
		t.Errorf("read %d files: %v", read, err)
	}
}
