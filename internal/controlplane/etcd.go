package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type etcdServer struct {
	etcd   *embed.Etcd
	client string // URL for clients
}

// startEtcd starts a single etcd member on unix sockets below dir. It never syncs to disk: the data
// does not outlive the process.
func startEtcd(ctx context.Context, dir string, log io.Writer) (*etcdServer, error) {
	cfg, err := etcdConfig(dir, log)
	if err != nil {
		return nil, err
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	s := &etcdServer{etcd: e, client: cfg.ListenClientUrls[0].String()}
	select {
	case <-e.Server.ReadyNotify():
		return s, nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.stop()
	return nil, err
}

func etcdConfig(dir string, log io.Writer) (*embed.Config, error) {
	dir = filepath.Join(dir, "etcd")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	sock := func(name string) []url.URL {
		return []url.URL{{Scheme: "unix", Path: filepath.Join(dir, name)}}
	}
	if n := len(filepath.Join(dir, "client.sock")); n > maxSocketPath {
		return nil, fmt.Errorf("socket path below %s has %d bytes; the limit is %d: choose a shorter Options.Dir", dir, n, maxSocketPath)
	}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "data")
	cfg.UnsafeNoFsync = true
	cfg.EnableGRPCGateway = false
	cfg.ListenClientUrls, cfg.ListenPeerUrls = sock("client.sock"), sock("peer.sock")
	// A lone member never dials what it advertises, but etcd insists on a host and a port.
	nobody := []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = nobody, nobody
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(log))
	return cfg, nil
}

// maxSocketPath is the size of sockaddr_un.sun_path less its terminating zero, unix(7).
const maxSocketPath = 107

func etcdLogger(log io.Writer) *zap.Logger {
	if log == nil {
		return zap.NewNop()
	}
	enc := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(log)), zapcore.WarnLevel))
}

func (s *etcdServer) stop() { s.etcd.Close() }
