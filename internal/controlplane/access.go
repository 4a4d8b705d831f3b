package controlplane

import (
	"context"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// User is a user with credentials.
type User struct {
	Name   string
	Groups []string
}

// Admin and Scheduler are users of every cluster.
var (
	Admin     = User{"berth-admin", []string{"system:masters"}}
	Scheduler = User{"system:kube-scheduler", nil}
)

// Kubelet returns the user of the node's kubelet.
func Kubelet(node string) User { return User{"system:node:" + node, []string{"system:nodes"}} }

// WriteKubeconfig writes the user's kubeconfig into a file.
func (cp *ControlPlane) WriteKubeconfig(path string, u User) error {
	config, err := cp.UserConfig(u.Name, u.Groups)
	if err != nil {
		return err
	}
	return WriteAccess(path, config)
}

// UserConfig returns a client configuration that authenticates as the user with the groups, by
// certificate. RBAC authorizes the requests, so a user without a role binding has almost no rights.
// For "system:node:NAME" in the group "system:nodes", the Node authorizer authorizes requests too.
func (cp *ControlPlane) UserConfig(user string, groups []string) (*rest.Config, error) {
	pair, err := cp.pki.client.client(user, groups)
	if err != nil {
		return nil, err
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(pair.key)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:  "https://" + cp.api.addr,
		QPS:   -1, // no rate limit, because the demo and the tests load the server on purpose
		Burst: -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   pkiutil.EncodeCertPEM(cp.pki.serving.cert),
			CertData: pkiutil.EncodeCertPEM(pair.cert),
			KeyData:  key,
		},
	}, nil
}

// Kubeconfig returns a kubeconfig file with client-certificate credentials of the user with the
// groups. It is self-contained: no path in it refers to the control plane's directory.
func (cp *ControlPlane) Kubeconfig(user string, groups []string) ([]byte, error) {
	config, err := cp.UserConfig(user, groups)
	if err != nil {
		return nil, err
	}
	return Access(config)
}

// tokenLife is the time for which a token of TokenConfig is valid.
const tokenLife = 24 * time.Hour

// TokenConfig returns a client configuration with a token of the service account. If node is not
// empty, the token is bound to that Node, like the token of a pod on it. Admission then sees the
// node's name (extra authentication.kubernetes.io/node-name). Account and node must exist.
func (cp *ControlPlane) TokenConfig(ctx context.Context, namespace, account, node string) (*rest.Config, error) {
	return Account{namespace, account}.Config(ctx, cp.admin, node)
}

// Account is a service account.
type Account struct{ Namespace, Name string }

// Config does what TokenConfig does, on the cluster of an administrator's client configuration.
func (a Account) Config(ctx context.Context, admin *rest.Config, node string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	seconds := int64(tokenLife / time.Second)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if node != "" {
		n, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		req.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
	}
	got, err := client.CoreV1().ServiceAccounts(a.Namespace).CreateToken(ctx, a.Name, req, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	return &rest.Config{
		Host: admin.Host, QPS: -1, Burst: -1, BearerToken: got.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData},
	}, nil
}

// WriteAccess writes a kubeconfig with the credentials of a client configuration into a file.
func WriteAccess(path string, config *rest.Config) error {
	data, err := Access(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Access returns a kubeconfig with the address and the credentials of a client configuration.
func Access(config *rest.Config) ([]byte, error) {
	const name = "berth"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, TLSServerName: config.ServerName, CertificateAuthorityData: config.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.Write(*out)
}
