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

// Etcd is a running etcd.
type Etcd struct {
	etcd *embed.Etcd
	url  string
}

// StartEtcd starts a single etcd member on unix sockets below dir, with the data in dir. It never
// syncs to disk, so its data survive a crash of the process, but not a crash of the machine. ctx
// applies to the start only. The argument log receives etcd's log; nil discards the log.
func StartEtcd(ctx context.Context, dir string, log io.Writer) (*Etcd, error) {
	cfg, err := etcdConfig(dir, log)
	if err != nil {
		return nil, err
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	s := &Etcd{etcd: e, url: cfg.ListenClientUrls[0].String()}
	select {
	case <-e.Server.ReadyNotify():
		return s, nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Stop()
	return nil, err
}

func etcdConfig(dir string, log io.Writer) (*embed.Config, error) {
	dir = filepath.Join(dir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
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
	// A single member waits for up to one election timeout until it elects itself. A short timeout
	// is safe, because a single member never loses an election.
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.EnableGRPCGateway = false
	// With the zero value, which applies because there is no command line, etcd would log every
	// request as slow.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	cfg.ListenClientUrls, cfg.ListenPeerUrls = sock("client.sock"), sock("peer.sock")
	// A single member never connects to its advertised URL, but etcd requires a host and a port.
	nobody := []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = nobody, nobody
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(log))
	return cfg, nil
}

// maxSocketPath is the size of sockaddr_un.sun_path without its terminating zero, unix(7).
const maxSocketPath = 107

func etcdLogger(log io.Writer) *zap.Logger {
	if log == nil {
		return zap.NewNop()
	}
	enc := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(log)), zapcore.WarnLevel))
}

// URL returns the address for clients: a unix socket.
func (s *Etcd) URL() string { return s.url }

// Stop ends etcd and waits for it.
func (s *Etcd) Stop() { s.etcd.Close() }
