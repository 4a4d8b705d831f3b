// Package guarded has the parts of a server that serves metrics over TLS, only to authorized
// readers, as kube-scheduler does. The API server must authenticate the user (TokenReview) and
// allow the user to get the path (SubjectAccessReview).
package guarded

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
)

// Values of the flag --metrics-auth.
const (
	// None: the server serves plain HTTP to every reader.
	None = "none"
	// Cluster: the server uses TLS, and asks the API server whether a reader is authorized.
	Cluster = "cluster"
)

// Check returns an error for an invalid value of --metrics-auth, and for certificates
// (--metrics-cert-dir) that a server over plain HTTP would ignore.
func Check(auth, certs string) error {
	if auth != None && auth != Cluster {
		return fmt.Errorf("--metrics-auth %q: want %s or %s", auth, None, Cluster)
	}
	if auth == None && certs != "" {
		return fmt.Errorf("--metrics-cert-dir %s: with --metrics-auth=%s, metrics are served over plain HTTP: want --metrics-auth=%s", certs, None, Cluster)
	}
	return nil
}

// Handler passes a request to next if the API server allows the user to get the path. The client of
// config needs the right to create tokenreviews and subjectaccessreviews (the ClusterRole
// system:auth-delegator).
func Handler(config *rest.Config, log logr.Logger, next http.Handler) (http.Handler, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("--metrics-auth: %w", err)
	}
	filter, err := filters.WithAuthenticationAndAuthorization(config, client)
	if err != nil {
		return nil, fmt.Errorf("--metrics-auth: %w", err)
	}
	return filter(log, next)
}

// TLS returns a server configuration with the files tls.crt and tls.key of a folder. The server
// reads the files at each handshake, so that they can be renewed. If folder is "", the certificate
// is self-signed, and clients cannot verify it.
func TLS(folder, host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if folder != "" {
		load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
			return &pair, err
		}
		if _, err := load(nil); err != nil {
			return nil, fmt.Errorf("--metrics-cert-dir %s: %w: want tls.crt and tls.key", folder, err)
		}
		c.GetCertificate = load
		return c, nil
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}
