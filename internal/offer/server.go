package offer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/berth-dev/berth/internal/wire"
)

// tokenPrefix is the beginning of the ids of tokens. It distinguishes them from the ids of devices.
const tokenPrefix = "berth-token-"

func token(i int) string { return fmt.Sprintf("%s%04d", tokenPrefix, i) }

// IsToken reports whether a device id is the id of a token.
func IsToken(id string) bool { return strings.HasPrefix(id, tokenPrefix) }

// kubeletSocket is the name of the socket through which plugins register, in the folder for device
// plugins.
const kubeletSocket = "kubelet.sock"

// plugin serves the tokens of a resource to the kubelet.
type plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	offers   *Offers
	resource string
	ended    context.Context
}

var _ pluginapi.DevicePluginServer = (*plugin)(nil)

// retryAfter is the pause before the next attempt to serve a resource.
const retryAfter = time.Second

func (o *Offers) serve(ctx context.Context, resource string) {
	said := ""
	for ctx.Err() == nil {
		err := o.serveOnce(ctx, resource)
		if text := fmt.Sprint(err); err != nil && ctx.Err() == nil && text != said {
			o.Log("device plugin of %s: %v; trying again", resource, err)
			said = text
		}
		if err == nil {
			said = ""
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

func socketOf(resource string) string {
	return "berth-" + strings.ReplaceAll(resource, "/", "_") + ".sock"
}

// serveOnce offers a resource until its socket is removed or ctx ends. A starting kubelet removes
// the sockets of all plugins, which then register again (server.Start in
// pkg/kubelet/cm/devicemanager/plugin/v1beta1). So serveOnce creates the socket only when the
// kubelet listens.
func (o *Offers) serveOnce(ctx context.Context, resource string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watch.Close()
	if err := watch.Add(o.Dir); err != nil {
		return err
	}
	kubelet, err := o.awaitKubelet(ctx, watch)
	if err != nil {
		return err
	}
	defer kubelet.Close()
	path := filepath.Join(o.Dir, socketOf(resource))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	pluginapi.RegisterDevicePluginServer(server, &plugin{offers: o, resource: resource, ended: ctx})
	go server.Serve(listener) //nolint:errcheck // Serve ends when the server is stopped
	if err := register(ctx, resource, kubelet); err != nil {
		return err
	}
	_, all, _ := o.tokens(resource)
	o.Log("offered to the kubelet: %s of %s", wire.Counted(all, "device"), resource)
	return awaitGone(ctx, watch, path)
}

// soon and later are the shortest and the longest pause between attempts to reach the kubelet. The
// pauses are short after a change in the folder, and then increase.
const (
	soon  = 5 * time.Millisecond
	later = time.Second
)

// awaitKubelet waits until it can connect to the kubelet, and returns the connection. It is not
// enough that the socket exists, because a stopped kubelet may have left it. The plugin must
// register soon after the kubelet has started, because the kubelet rejects pods that ask for
// unregistered resources.
func (o *Offers) awaitKubelet(ctx context.Context, watch *fsnotify.Watcher) (net.Conn, error) {
	var dialer net.Dialer
	for wait := soon; ; {
		conn, err := dialer.DialContext(ctx, "unix", filepath.Join(o.Dir, kubeletSocket))
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-watch.Errors:
			return nil, err
		case <-watch.Events:
			wait = soon
		case <-time.After(wait):
			wait = min(2*wait, later)
		}
	}
}

// awaitGone waits until the file has been removed or replaced. It returns an error if ctx ends or
// the watch fails first.
func awaitGone(ctx context.Context, watch *fsnotify.Watcher, path string) error {
	own, err := os.Lstat(path)
	if err != nil {
		return nil //nolint:nilerr // the file is gone
	}
	for {
		if now, err := os.Lstat(path); err != nil || !os.SameFile(own, now) {
			return nil //nolint:nilerr // the file is gone
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-watch.Errors:
			return err
		case <-watch.Events:
		}
	}
}

// registerLimit is the maximum duration of a registration. The kubelet tries for 10 s to connect to
// the plugin.
const registerLimit = 30 * time.Second

func register(ctx context.Context, resource string, kubelet net.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, registerLimit)
	defer cancel()
	unused := make(chan net.Conn, 1)
	unused <- kubelet
	dial := func(context.Context, string) (net.Conn, error) {
		select {
		case conn := <-unused:
			return conn, nil
		default:
			return nil, errors.New("the kubelet has closed the connection")
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+kubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: socketOf(resource), ResourceName: resource, Options: options(),
	})
	return err
}

// options makes the kubelet call GetPreferredAllocation. The plugin prefers the tokens with the
// lowest numbers, because the tokens with the highest numbers become unhealthy first.
func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// GetDevicePluginOptions implements pluginapi.DevicePluginServer.
func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

// ListAndWatch implements pluginapi.DevicePluginServer.
func (p *plugin) ListAndWatch(_ *pluginapi.Empty, stream pluginapi.DevicePlugin_ListAndWatchServer) error {
	for lastWell, lastAll := -1, -1; ; {
		well, all, changed := p.offers.tokens(p.resource)
		if well != lastWell || all != lastAll {
			units := wire.DeviceUnits(p.resource)
			if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: tokens(units*well, units*all)}); err != nil {
				return err
			}
			if lastWell < 0 {
				p.offers.listen(p.resource, 1)
				defer p.offers.listen(p.resource, -1)
			}
			lastWell, lastAll = well, all
		}
		select {
		case <-changed:
		case <-p.ended.Done():
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

// tokens returns the tokens with the numbers 0 to all-1. Tokens with numbers from 0 to well-1 are
// healthy, and the others are not.
func tokens(well, all int) []*pluginapi.Device {
	out := make([]*pluginapi.Device, all)
	for i := range out {
		out[i] = &pluginapi.Device{ID: token(i), Health: pluginapi.Healthy}
		if i >= well {
			out[i].Health = pluginapi.Unhealthy
		}
	}
	return out
}

// GetPreferredAllocation implements pluginapi.DevicePluginServer. It returns the required tokens,
// then the lowest other tokens.
func (p *plugin) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	resp := &pluginapi.PreferredAllocationResponse{}
	for _, c := range req.ContainerRequests {
		ids := slices.Clone(c.MustIncludeDeviceIDs)
		for _, id := range slices.Sorted(slices.Values(c.AvailableDeviceIDs)) {
			if len(ids) < int(c.AllocationSize) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return resp, nil
}

// Allocate implements pluginapi.DevicePluginServer. It assigns no device. An annotation of the
// container records the number of devices for which it has tokens, so that the container starts
// only with this number of devices.
func (p *plugin) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	resp := &pluginapi.AllocateResponse{}
	for _, c := range req.ContainerRequests {
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerAllocateResponse{
			Annotations: map[string]string{wire.TokensAnnotation(p.resource): wire.DeviceCount(p.resource, len(c.DevicesIds))},
		})
	}
	return resp, nil
}
