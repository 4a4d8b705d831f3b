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
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// guestAPIServer is where the guest finds the API server: QEMU forwards it to loopback on the host.
const guestAPIServer = "https://10.0.2.100:6443"

// Credentials gives kubeconfigs; the in-process control plane does.
type Credentials interface {
	Kubeconfig(user string, groups []string) ([]byte, error)
	Addr() string
}

// KubeletSettings is the part of a KubeletConfiguration that a test varies, as YAML lines
// ("topologyManagerPolicy: restricted").
type KubeletSettings string

// kubeletBase holds what every guest's kubelet needs; cgroupfs, because there is no systemd in the
// guest.
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
func joinFiles(cp Credentials, node string, settings KubeletSettings) (map[string][]byte, error) {
	kubelet, err := guestKubeconfig(cp, "system:node:"+node, []string{"system:nodes"})
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

// agentCredentials is where the agent finds its own: a token bound to the node, which there is only
// once the node is.
const agentCredentials = "/etc/berth/agent.kubeconfig"

// agentKubeconfig turns a client configuration with a token into a file for the guest.
func agentKubeconfig(c *rest.Config) ([]byte, error) {
	const name = "agent"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: guestAPIServer, TLSServerName: "127.0.0.1", CertificateAuthorityData: c.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// guestKubeconfig points the credentials at the forwarded address; the certificate is still the one
// for loopback.
func guestKubeconfig(cp Credentials, user string, groups []string) ([]byte, error) {
	data, err := cp.Kubeconfig(user, groups)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	for _, c := range config.Clusters {
		c.Server, c.TLSServerName = guestAPIServer, "127.0.0.1"
	}
	return clientcmd.Write(*config)
}

// apiPort is the loopback port of the API server.
func apiPort(cp Credentials) (int, error) {
	addr := cp.Addr()
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		addr = u.Host
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// servingCertificate spares the guest the making of an RSA key, which takes an emulator seconds.
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
