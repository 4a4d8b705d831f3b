package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/controlplane"
)

// VolcanoController is Volcano's own vc-controller-manager, an executable that the user provides.
// It creates the pods of Jobs instead of berth-controller.
type VolcanoController struct {
	// Program is the executable.
	Program string
	// Definitions is the folder with Volcano's CustomResourceDefinitions, as YAML.
	Definitions string
}

// volcanoLease is the Lease of Volcano's controller, in the namespace volcanoNamespace.
const (
	volcanoNamespace = "volcano-system"
	volcanoLease     = "vc-controller-manager"
)

// volcanoBasics are the objects of Volcano's installation other than its CustomResourceDefinitions.
// Volcano's controller needs the queue named root.
const volcanoBasics = `apiVersion: v1
kind: Namespace
metadata: {name: ` + volcanoNamespace + `}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: root}
spec: {reclaimable: false, weight: 1}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default}
spec: {reclaimable: true, weight: 1, parent: root}
`

// Check returns an error if the files are not usable.
func (v *VolcanoController) Check() error {
	info, err := os.Stat(v.Program)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s: want an executable file", v.Program)
	}
	_, err = v.Manifests()
	return err
}

// Manifests returns Volcano's CustomResourceDefinitions and the other objects of its installation.
func (v *VolcanoController) Manifests() ([][]byte, error) {
	files, err := filepath.Glob(filepath.Join(v.Definitions, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: want a folder with Volcano's CustomResourceDefinitions (*.yaml)", v.Definitions)
	}
	var out [][]byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return append(out, []byte(volcanoBasics)), nil
}

// controllers returns the value of the flag --controllers of Volcano's controller. The enabled
// loops start only when all of them have read the objects of their kinds. So the value disables the
// loops for JobFlows if the definitions of their kinds are missing.
func (v *VolcanoController) controllers() string {
	const byDefault = "*,-sharding-controller"
	if files, _ := filepath.Glob(filepath.Join(v.Definitions, "flow.volcano.sh_*.yaml")); len(files) > 0 {
		return byDefault
	}
	return byDefault + ",-jobflow-controller,-jobtemplate-controller"
}

// StartVolcano runs Volcano's controller with an administrator's rights, and returns when the
// controller holds its Lease.
func (c *Cluster) StartVolcano(ctx context.Context, v *VolcanoController) (stop func() error, err error) {
	kubeconfig := filepath.Join(c.dir, "volcano.kubeconfig")
	if err := c.ControlPlane.WriteKubeconfig(kubeconfig, controlplane.User{Name: "volcano-controller", Groups: controlplane.Admin.Groups}); err != nil {
		return nil, err
	}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	p, err := child.Start(child.Spec{Name: "vc-controller-manager", Foreign: true, Log: filepath.Join(c.dir, "volcano.log"), Argv: []string{
		v.Program, "--kubeconfig=" + kubeconfig, "--leader-elect=true", "--leader-elect-resource-namespace=" + volcanoNamespace,
		"--scheduler-name=" + volcano, "--controllers=" + v.controllers(), fmt.Sprint("--listen-address=127.0.0.1:", port), "-v=3",
	}})
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return c.held(ctx, volcanoNamespace, volcanoLease), p.Ended()
	})
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("vc-controller-manager: %w: %s", err, p.LogTail(1000))
	}
	return func() error { p.Kill(); return nil }, nil // after SIGTERM it would exit with 255
}
