package sampleplugin

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Server serves one Plugin on a socket in the folder of the kubelet's socket, and has registered it
// with the kubelet.
type Server struct {
	pluginapi.UnimplementedDevicePluginServer
	plugin Plugin
	server *grpc.Server
	// closed ends the ListAndWatch streams.
	closed context.Context
	close  context.CancelFunc
}

var _ pluginapi.DevicePluginServer = &Server{}

// Start serves the plugin on dir/socket and registers it with the kubelet whose kubelet.sock is in
// dir (/var/lib/kubelet/device-plugins). The caller stops it.
func Start(ctx context.Context, dir, socket string, plugin Plugin) (*Server, error) {
	s := &Server{plugin: plugin, server: grpc.NewServer()}
	s.closed, s.close = context.WithCancel(context.Background())
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		return nil, fmt.Errorf("device plugin %s: %w", plugin.Resource, err)
	}
	pluginapi.RegisterDevicePluginServer(s.server, s)
	go s.server.Serve(listener)
	if err := s.register(ctx, dir, socket); err != nil {
		s.Stop()
		return nil, fmt.Errorf("device plugin %s: register: %w", plugin.Resource, err)
	}
	return s, nil
}

func (s *Server) register(ctx context.Context, dir, socket string) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     socket,
		ResourceName: s.plugin.Resource,
		Options:      s.options(),
	}, grpc.WaitForReady(true))
	return err
}

// Stop ends the server and removes its socket.
func (s *Server) Stop() {
	s.close()
	s.server.Stop()
}

func (s *Server) options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: s.plugin.Prefer}
}

// GetDevicePluginOptions implements pluginapi.DevicePluginServer.
func (s *Server) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return s.options(), nil
}

// ListAndWatch implements pluginapi.DevicePluginServer: the devices are sent once and never change.
func (s *Server) ListAndWatch(_ *pluginapi.Empty, stream pluginapi.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: s.devices()}); err != nil {
		return err
	}
	select {
	case <-s.closed.Done():
	case <-stream.Context().Done():
	}
	return nil
}

func (s *Server) devices() []*pluginapi.Device {
	var out []*pluginapi.Device
	for _, d := range s.plugin.Devices {
		dev := &pluginapi.Device{ID: d.ID, Health: pluginapi.Healthy}
		if d.Unhealthy {
			dev.Health = pluginapi.Unhealthy
		}
		for _, n := range d.NUMA {
			if dev.Topology == nil {
				dev.Topology = &pluginapi.TopologyInfo{}
			}
			dev.Topology.Nodes = append(dev.Topology.Nodes, &pluginapi.NUMANode{ID: int64(n)})
		}
		out = append(out, dev)
	}
	return out
}

// GetPreferredAllocation implements pluginapi.DevicePluginServer: it returns the devices that must
// be included, then ascending ids.
func (s *Server) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	resp := &pluginapi.PreferredAllocationResponse{}
	for _, c := range req.ContainerRequests {
		ids := slices.Clone(c.MustIncludeDeviceIDs)
		free := slices.SortedFunc(slices.Values(c.AvailableDeviceIDs), cmp.Compare)
		for _, id := range free {
			if len(ids) < int(c.AllocationSize) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return resp, nil
}

// Allocate implements pluginapi.DevicePluginServer: there is nothing to prepare.
func (s *Server) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	resp := &pluginapi.AllocateResponse{}
	for range req.ContainerRequests {
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return resp, nil
}
