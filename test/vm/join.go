package vm

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/controlplane"
)

// guestAPIServer is the guest's address of the API server: QEMU forwards it to loopback on the
// host.
const guestAPIServer = "https://10.0.2.100:6443"

// KubeletSettings is the part of a KubeletConfiguration that a test varies, as YAML lines
// ("topologyManagerPolicy: restricted").
type KubeletSettings string

// kubeletBase is the common configuration of all guests' kubelets. It uses cgroupfs, because the
// guest has no systemd.
const kubeletBase = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
tlsCertFile: /etc/berth/kubelet.crt
tlsPrivateKeyFile: /etc/berth/kubelet.key
makeIPTablesUtilChains: false
failSwapOn: false
syncFrequency: 5s
cpuManagerReconcilePeriod: 2s
evictionHard: {memory.available: 50Mi}
`

// joinFiles returns the files that make a guest a node of the cluster.
func joinFiles(cp *controlplane.ControlPlane, node string, settings KubeletSettings) (map[string][]byte, error) {
	user := controlplane.Kubelet(node)
	config, err := cp.UserConfig(user.Name, user.Groups)
	if err != nil {
		return nil, err
	}
	kubelet, err := guestAccess(config)
	if err != nil {
		return nil, err
	}
	cert, key, err := servingCertificate(node)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"kubelet.yaml": []byte(kubeletBase + string(settings)),
		"kubeconfig":   kubelet,
		"kubelet.crt":  cert,
		"kubelet.key":  key,
		"start.sh":     nil,
		"agent.sh": []byte(`until [ -s ` + agentCredentials + ` ]; do usleep 200000; done
berth-agent --node-name="$(cat /etc/berth/name)" --kubeconfig=` + agentCredentials + ` \
  --kubelet-root-dir=/var/lib/kubelet --kubelet-config=/etc/berth/kubelet.yaml` + "\n"),
	}, nil
}

// agentCredentials is the file of the agent's credentials: a token bound to the node, which exists
// only after the node.
const agentCredentials = "/etc/berth/agent.kubeconfig"

// guestAccess returns a kubeconfig for the forwarded address. The certificate is for loopback.
func guestAccess(config *rest.Config) ([]byte, error) {
	config = rest.CopyConfig(config)
	config.Host, config.ServerName = guestAPIServer, "127.0.0.1"
	return controlplane.Access(config)
}

// apiPort is the loopback port of the API server.
func apiPort(cp *controlplane.ControlPlane) (int, error) {
	_, port, err := net.SplitHostPort(cp.Addr())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// servingCertificate makes the kubelet's certificate on the host, because an RSA key takes an
// emulated guest seconds.
func servingCertificate(node string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: node},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{node},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("kubelet key: %w", err)
	}
	encode := func(kind string, der []byte) []byte {
		var b bytes.Buffer
		_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der})
		return b.Bytes()
	}
	return encode("CERTIFICATE", cert), encode("EC PRIVATE KEY", keyDER), nil
}
