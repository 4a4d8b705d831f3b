// Command driver is the sample DRA driver of the emulated machines. It offers the PCI devices of
// some vendors, and makes the runtime inject a container's devices by CDI: the block devices of a
// disk, and for every device a variable with its address.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/test/sampledriver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("driver", flag.ContinueOnError)
	name := flags.String("name", "", "name of the driver")
	node := flags.String("node", "", "name of the node")
	kubeconfig := flags.String("kubeconfig", "", "access with the node's rights")
	root := flags.String("kubelet", "/var/lib/kubelet", "the kubelet's folder")
	cdi := flags.String("cdi", "/etc/cdi", "the runtime's folder of CDI specifications")
	vendors := flags.String("vendors", "", "PCI vendors, as 1234,1b36")
	backwards := flags.Bool("backwards", false, "offer the last device first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	found, err := devices("/sys/bus/pci/devices", strings.Split(*vendors, ","))
	if err != nil {
		return err
	}
	if *backwards {
		slices.Reverse(found)
	}
	if err := writeCDI(*cdi, *name, found); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	o := sampledriver.Options{Name: *name, Node: *node, Registry: filepath.Join(*root, "plugins_registry"), Own: filepath.Join(*root, "plugins", *name), Client: client}
	for i := range found {
		o.Devices = append(o.Devices, found[i].offered())
	}
	d := sampledriver.New(o)
	if err := d.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	d.Stop()
	return nil
}

// device is a PCI device.
type device struct {
	address, vendor string
	// numa is -1 if the kernel does not know.
	numa int64
	// disks are its block devices.
	disks []string
}

// name returns the device's name, a DNS label: its address without colons.
func (d *device) name() string {
	return "pci-" + strings.NewReplacer(":", "-", ".", "-").Replace(d.address)
}

// offered returns the device for its slice. A disk has only its address, which Berth looks up in
// the machine that the agent reported.
func (d *device) offered() resourceapi.Device {
	out := resourceapi.Device{Name: d.name(), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"vendor": {StringValue: &d.vendor}, "resource.kubernetes.io/pciBusID": {StringValue: &d.address},
	}}
	if len(d.disks) == 0 {
		out.Attributes["resource.kubernetes.io/numaNode"] = resourceapi.DeviceAttribute{IntValue: &d.numa}
	}
	return out
}

// devices finds the PCI devices of the vendors, by address.
func devices(sys string, vendors []string) (out []device, err error) {
	all, err := os.ReadDir(sys)
	if err != nil {
		return nil, err
	}
	read := func(parts ...string) string {
		text, wrong := os.ReadFile(filepath.Join(append([]string{sys}, parts...)...))
		err = errors.Join(err, wrong)
		return strings.TrimSpace(string(text))
	}
	for _, e := range all {
		d := device{address: e.Name(), vendor: strings.TrimPrefix(read(e.Name(), "vendor"), "0x")}
		bridge := strings.HasPrefix(read(e.Name(), "class"), "0x06")
		if bridge || !slices.Contains(vendors, d.vendor) {
			continue
		}
		var wrong error
		d.numa, wrong = strconv.ParseInt(read(e.Name(), "numa_node"), 10, 64)
		err = errors.Join(err, wrong)
		blocks, wrong := filepath.Glob(filepath.Join(sys, e.Name(), "nvme", "nvme*", "nvme*n*"))
		err = errors.Join(err, wrong)
		for _, b := range blocks {
			d.disks = append(d.disks, filepath.Base(b))
		}
		out = append(out, d)
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("-vendors %s: no PCI device of these vendors in %s", strings.Join(vendors, ","), sys)
	}
	return out, err
}

// writeCDI describes the devices to the runtime, under the names that package sampledriver gives
// them: NAME/device=DEVICE.
func writeCDI(dir, name string, all []device) error {
	type edits struct {
		Env         []string            `json:"env"`
		DeviceNodes []map[string]string `json:"deviceNodes,omitempty"`
	}
	type entry struct {
		Name  string `json:"name"`
		Edits edits  `json:"containerEdits"`
	}
	spec := struct {
		Version string  `json:"cdiVersion"`
		Kind    string  `json:"kind"`
		Devices []entry `json:"devices"`
	}{"0.6.0", name + "/device", nil}
	for i := range all {
		d := &all[i]
		e := entry{d.name(), edits{Env: []string{"CLAIMED_" + strings.ReplaceAll(d.name(), "-", "_") + "=" + d.address}}}
		for _, disk := range d.disks {
			e.Edits.DeviceNodes = append(e.Edits.DeviceNodes, map[string]string{"path": "/dev/" + disk})
		}
		spec.Devices = append(spec.Devices, e)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), text, 0o644)
}
