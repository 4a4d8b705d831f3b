package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/deploy"
	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
	"github.com/berth-dev/berth/internal/convert"
)

// TestConvertedConfigurations starts berth-scheduler with converted configurations of Volcano, with
// its service account. It leads, and its profile is volcano.
func TestConvertedConfigurations(t *testing.T) {
	t.Parallel()
	cp := startControlPlane(t, controlplane.Options{})
	if err := cp.Apply(t.Context(), deploy.Manifests()...); err != nil {
		t.Fatal(err)
	}
	account, err := cp.TokenConfig(t.Context(), "berth-system", "berth-scheduler", "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := controlplane.WriteAccess(kubeconfig, account); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	for _, name := range []string{"reference", "configmap", "page-json"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(repository, "internal", "convert", "testdata", name+".in"))
			if err != nil {
				t.Fatal(err)
			}
			converted, err := convert.Volcano(text)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "config.yaml")
			write(t, file, withAccess(t, converted.Config, kubeconfig))
			port, err := child.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			p := runScheduler(t, schedulerVerb, port, "--config="+file, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port), "--cert-dir="+dir, "-v=2")
			eventually(t, "it leads", func() error {
				if err := p.Ended(); err != nil {
					t.Fatal(err)
				}
				lease, err := client.CoordinationV1().Leases("berth-system").Get(t.Context(), "berth-scheduler", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
					return errors.New("nobody leads")
				}
				return nil
			})
			pod := pinnedPod("p-"+name, "", "2")
			pod.Spec.SchedulerName = "volcano"
			if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it answers for a pod of volcano", func() error {
				got, err := client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, c := range got.Status.Conditions {
					if c.Type == "PodScheduled" && strings.Contains(c.Message, "no nodes available") {
						return nil
					}
				}
				return fmt.Errorf("%+v", got.Status.Conditions)
			})
			p.Kill()
			if err := client.CoordinationV1().Leases("berth-system").Delete(t.Context(), "berth-scheduler", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// withAccess adds the API server's address, which a pod would get from its environment.
func withAccess(t *testing.T, text []byte, kubeconfig string) []byte {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig}
	out, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
