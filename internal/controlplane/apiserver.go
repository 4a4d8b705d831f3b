package controlplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

func init() {
	// A second server in the process, or a scheduler in the same process, sets up logging again.
	// That must not be an error.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
}

// setLog makes klog, with which the API server logs, write to w.
func setLog(w io.Writer) {
	if w == nil {
		w = io.Discard
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	// By default klog also prints errors to stderr.
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // klog has these flags since v1
		}
	}
	klog.SetOutput(w)
}

// apiServer is a running server, in this process or in its own.
type apiServer struct {
	addr     string
	listener *trackingListener // nil in a process of its own
	cancel   func()            // asks the server to end
	cut      func()            // closes the connections for which the server waits
	done     chan struct{}
	err      error // set before done is closed
}

// startAPIServer builds the whole chain of servers (aggregator, core, apiextensions) as
// cmd/kube-apiserver/app.Run does, and runs the chain in the background.
func startAPIServer(ctx context.Context, cp *ControlPlane, storage string, opts *Options) (_ *apiServer, err error) {
	tcp, err := cp.listen(ctx)
	if err != nil {
		return nil, err
	}
	listener := &trackingListener{tcp: tcp}
	defer func() {
		if err != nil {
			listener.Close()
		}
	}()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	prepared, err := build(ctx, listener, append(defaultFlags(cp.pki, storage, opts), opts.Flags...), opts.Around)
	if err != nil {
		return nil, err
	}
	s := &apiServer{addr: listener.Addr().String(), listener: listener, cut: listener.cut, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = prepared.Run(ctx)
	}()
	return s, nil
}

// building is locked while a server is built, because building reads and writes tables that the
// whole process shares.
var building sync.Mutex

type runnable interface{ Run(context.Context) error }

func build(ctx context.Context, listener net.Listener, flags []string, around func(http.Handler) http.Handler) (runnable, error) {
	building.Lock()
	defer building.Unlock()
	opts, err := serverOptions(ctx, listener, flags)
	if err != nil {
		return nil, err
	}
	config, err := app.NewConfig(opts)
	if err != nil {
		return nil, err
	}
	if around != nil {
		front := config.Aggregator.GenericConfig // requests for the other servers go through its handler chain too
		inner := front.BuildHandlerChainFunc
		front.BuildHandlerChainFunc = func(h http.Handler, c *server.Config) http.Handler { return around(inner(h, c)) }
	}
	completed, err := config.Complete()
	if err != nil {
		return nil, err
	}
	chain, err := app.CreateServerChain(completed)
	if err != nil {
		return nil, err
	}
	return chain.PrepareRun()
}

// serverOptions returns validated options for a server on the listener.
func serverOptions(ctx context.Context, listener net.Listener, flags []string) (options.CompletedOptions, error) {
	s := options.NewServerRunOptions()
	if err := useOwnRegistry(s); err != nil {
		return options.CompletedOptions{}, err
	}
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	if err := fs.Parse(flags); err != nil {
		return options.CompletedOptions{}, err
	}
	addr := listener.Addr().(*net.TCPAddr)
	s.SecureServing.Listener, s.SecureServing.BindPort = listener, addr.Port
	s.SecureServing.ExternalAddress = addr.IP
	completed, err := s.Complete(ctx)
	if err != nil {
		return completed, err
	}
	return completed, utilerrors.NewAggregate(completed.Validate())
}

// useOwnRegistry gives the server its own registry of component versions. The process-wide registry
// can be set only once, and tests start several servers in a row.
func useOwnRegistry(s *options.ServerRunOptions) error {
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	version := compatibility.DefaultKubeEffectiveVersionForTest()
	version.SetEmulationVersion(gates.EmulationVersion())
	version.SetMinCompatibilityVersion(gates.MinCompatibilityVersion())
	registry := basecompatibility.NewComponentGlobalsRegistry()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, version, gates); err != nil {
		return err
	}
	s.GenericServerRunOptions.ComponentGlobalsRegistry = registry
	return nil
}

func defaultFlags(keys *pki, storage string, opts *Options) []string {
	p := keys.path
	// Without a controller manager, no program creates service accounts or removes taints.
	disabled := "TaintNodesByCondition"
	if !opts.ServiceAccounts {
		disabled += ",ServiceAccount"
	}
	return []string{
		"--etcd-servers=" + storage,
		"--etcd-prefix=/registry",
		"--tls-cert-file=" + p("apiserver.crt"),
		"--tls-private-key-file=" + p("apiserver.key"),
		"--client-ca-file=" + p("client-ca.crt"),
		"--requestheader-client-ca-file=" + p("proxy-ca.crt"),
		"--requestheader-allowed-names=" + proxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p("proxy.crt"),
		"--proxy-client-key-file=" + p("proxy.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p("tokens.key"),
		"--service-account-signing-key-file=" + p("tokens.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--anonymous-auth=false",
		"--allow-privileged=true",
		"--endpoint-reconciler-type=none",
		"--enable-admission-plugins=NodeRestriction",
		"--disable-admission-plugins=" + disabled,
	}
}

// readyPoll is the interval of readiness checks during the start.
const readyPoll = 50 * time.Millisecond

// waitReady waits for /readyz (which covers the bootstrap RBAC rules) and for the default
// namespace.
func (s *apiServer) waitReady(ctx context.Context, admin *rest.Config) error {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.done:
			return false, fmt.Errorf("server ended: %w", s.err)
		default:
		}
		if last = client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); last != nil {
			return false, nil
		}
		_, last = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// grace is the time that the server waits for clients to disconnect. Without a limit, a single open
// watch keeps the server running for a minute (its request timeout).
const grace = 2 * time.Second

// stop ends the server and waits for it. It closes connections of clients that do not disconnect in
// time.
func (s *apiServer) stop() error {
	s.cancel()
	select {
	case <-s.done:
	case <-time.After(grace):
		s.cut()
		<-s.done
	}
	return s.err
}

// trackingListener remembers its connections, so that it can close them. It can stop listening for
// some time.
type trackingListener struct {
	mu    sync.Mutex
	tcp   net.Listener
	conns map[*trackedConn]struct{}
	// away is nil while the listener listens. It is closed when the listener listens again.
	away chan struct{}
}

type trackedConn struct {
	net.Conn
	l *trackingListener
}

// Accept implements net.Listener. While the listener is away it waits.
func (l *trackingListener) Accept() (net.Conn, error) {
	for {
		tcp, away := l.now()
		if away != nil {
			<-away
			continue
		}
		conn, err := tcp.Accept()
		if c := l.track(tcp, conn); c != nil {
			return c, nil
		}
		if now, away := l.now(); err != nil && now == tcp && away == nil {
			return nil, err
		}
	}
}

func (l *trackingListener) now() (tcp net.Listener, away chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tcp, l.away
}

// track remembers a connection. It closes the connection if the listener has stopped listening
// meanwhile.
func (l *trackingListener) track(tcp net.Listener, conn net.Conn) net.Conn {
	if conn == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tcp != tcp || l.away != nil {
		conn.Close()
		return nil
	}
	c := &trackedConn{conn, l}
	if l.conns == nil {
		l.conns = map[*trackedConn]struct{}{}
	}
	l.conns[c] = struct{}{}
	return c
}

// Addr implements net.Listener.
func (l *trackingListener) Addr() net.Addr {
	tcp, _ := l.now()
	return tcp.Addr()
}

// Close implements net.Listener.
func (l *trackingListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away != nil {
		close(l.away)
		l.away = nil
	}
	return l.tcp.Close()
}

func (c *trackedConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// leave stops listening and closes every connection.
func (l *trackingListener) leave() {
	l.mu.Lock()
	if l.away == nil {
		l.away = make(chan struct{})
		l.tcp.Close()
	}
	l.mu.Unlock()
	l.cut()
}

// comeBack listens again at the same address.
func (l *trackingListener) comeBack(ctx context.Context) error {
	if _, away := l.now(); away == nil {
		return nil
	}
	tcp, err := listenAgain(ctx, l.Addr().String())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away == nil { // Close has closed the listener
		return tcp.Close()
	}
	l.tcp = tcp
	close(l.away)
	l.away = nil
	return nil
}

func (l *trackingListener) cut() {
	l.mu.Lock()
	conns := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}
