// Command plugin is the sample device plugin of the emulated machines. It ends when its socket
// disappears, because a restarting kubelet removes the socket. The program that runs it starts it
// again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"github.com/berth-dev/berth/internal/sampleplugin"
	"github.com/berth-dev/berth/topology"
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
	flags := flag.NewFlagSet("plugin", flag.ContinueOnError)
	dir := flags.String("dir", "/var/lib/kubelet/device-plugins", "the kubelet's folder for device plugins")
	resource := flags.String("resource", "", "name of the resource")
	devices := flags.String("devices", "", "NUMA:COUNT,NUMA:COUNT...")
	prefer := flags.Bool("prefer", false, "answer GetPreferredAllocation")
	if err := flags.Parse(args); err != nil {
		return err
	}
	plugin := sampleplugin.Plugin{Resource: *resource, Prefer: *prefer}
	if err := parseDevices(*devices, &plugin); err != nil {
		return err
	}
	if err := plugin.Check(); err != nil {
		return err
	}
	return serve(ctx, *dir, plugin)
}

func parseDevices(text string, plugin *sampleplugin.Plugin) error {
	for item := range strings.SplitSeq(text, ",") {
		numa, count, _ := strings.Cut(item, ":")
		id, err1 := strconv.ParseUint(numa, 10, 6)
		n, err2 := strconv.ParseUint(count, 10, 8)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("-devices %q: want NUMA:COUNT,NUMA:COUNT: %w", text, err)
		}
		for i := range n {
			plugin.Devices = append(plugin.Devices, sampleplugin.Device{ID: fmt.Sprintf("n%d-%d", id, i), NUMA: []topology.NUMAID{topology.NUMAID(id)}})
		}
	}
	return nil
}

func serve(ctx context.Context, dir string, plugin sampleplugin.Plugin) error {
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watch.Close()
	if err := watch.Add(dir); err != nil {
		return err
	}
	socket := strings.ReplaceAll(plugin.Resource, "/", "-") + ".sock"
	if err := os.Remove(filepath.Join(dir, socket)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	server, err := sampleplugin.Start(ctx, dir, socket, plugin)
	if err != nil {
		return err
	}
	defer server.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watch.Errors:
			return err
		case e := <-watch.Events:
			// A starting kubelet creates its own socket again, which asks plugins to register
			// again.
			if e.Has(fsnotify.Create) && filepath.Base(e.Name) == "kubelet.sock" {
				return nil
			}
		}
	}
}
