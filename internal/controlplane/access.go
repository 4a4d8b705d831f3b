package controlplane

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// UserConfig returns a client configuration that authenticates, by certificate, as the user with the
// groups. Authorisation is by RBAC (and the Node authorizer for "system:node:NAME" in group
// "system:nodes"): a user without a binding may do next to nothing.
func (cp *ControlPlane) UserConfig(user string, groups []string) (*rest.Config, error) {
	return cp.config(user, groups)
}

func (cp *ControlPlane) config(user string, groups []string) (*rest.Config, error) {
	pair, err := cp.pki.client.client(user, groups)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:  "https://" + cp.api.addr,
		QPS:   -1, // the demo and the tests load the server on purpose
		Burst: -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   cp.pki.serving.pem,
			CertData: pair.cert,
			KeyData:  pair.key,
		},
	}, nil
}

// Kubeconfig returns a kubeconfig file with client-certificate credentials of the user with the groups.
// It is self-contained: no path in it refers to the control plane's directory.
func (cp *ControlPlane) Kubeconfig(user string, groups []string) ([]byte, error) {
	pair, err := cp.pki.client.client(user, groups)
	if err != nil {
		return nil, err
	}
	const name = "berth"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + cp.api.addr, CertificateAuthorityData: cp.pki.serving.pem}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	cfg.CurrentContext = name
	return clientcmd.Write(*cfg)
}
