package controlplane

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// certLife is the time for which certificates are valid. It is longer than any demo, and short
// enough that a stolen certificate is soon useless.
const certLife = 7 * 24 * time.Hour

// pair is a certificate with its key. It may be the certificate of an authority.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// certConfig returns the settings of a certificate. Certificates are valid from an hour ago,
// because clocks of other processes may be behind.
func certConfig(c certutil.Config) *pkiutil.CertConfig {
	now := time.Now()
	c.NotBefore = now.Add(-time.Hour)
	return &pkiutil.CertConfig{Config: c, NotAfter: now.Add(certLife), EncryptionAlgorithm: kubeadm.EncryptionAlgorithmECDSAP256}
}

// issue signs a certificate for a new key.
func (p pair) issue(c certutil.Config) (out pair, err error) {
	out.cert, out.key, err = pkiutil.NewCertAndKey(p.cert, p.key, certConfig(c))
	return out, err
}

// client returns credentials for a user. The API server reads the user from the common name, and
// the groups from the organisations (k8s.io/apiserver/pkg/authentication/request/x509).
func (p pair) client(user string, groups []string) (pair, error) {
	return p.issue(certutil.Config{CommonName: user, Organization: groups, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// pki has the keys and certificates of one control plane. It has separate authorities for serving,
// for clients and for the front proxy. With a single authority, a serving certificate could
// authenticate a user.
type pki struct {
	dir                    string
	serving, client, proxy pair
}

// openPKI returns keys and certificates. If the argument kept is true and dir has keys and
// certificates of an earlier call, openPKI reads them. Otherwise it writes new ones into dir, and
// returns an error if dir already has some. It writes the keys of the authorities only if kept is
// true.
func openPKI(dir string, kept bool) (*pki, error) {
	p := &pki{dir: filepath.Join(dir, "pki")}
	if _, err := os.Stat(p.dir); err == nil && kept {
		return p, p.read()
	}
	// The directory has another name until it is complete, so that a process that is killed leaves
	// no incomplete directory behind.
	made := &pki{dir: p.dir + ".new"}
	if err := errors.Join(os.RemoveAll(made.dir), os.Mkdir(made.dir, 0o700)); err != nil {
		return nil, err
	}
	if err := made.make(kept); err != nil {
		return nil, err
	}
	made.dir = p.dir
	return made, os.Rename(p.dir+".new", p.dir)
}

// authorities returns pointers to the fields with the authorities, by name.
func (p *pki) authorities() map[string]*pair {
	return map[string]*pair{"serving-ca": &p.serving, "client-ca": &p.client, "proxy-ca": &p.proxy}
}

func (p *pki) make(kept bool) (err error) {
	for name, a := range p.authorities() {
		if a.cert, a.key, err = pkiutil.NewCertificateAuthority(certConfig(certutil.Config{CommonName: "berth-" + name})); err != nil {
			return err
		}
		if err := pkiutil.WriteCert(p.dir, name, a.cert); err != nil {
			return err
		}
		if !kept {
			continue
		}
		if err := pkiutil.WriteKey(p.dir, name, a.key); err != nil {
			return err
		}
	}
	return p.writePairs()
}

func (p *pki) read() (err error) {
	for name, a := range p.authorities() {
		if a.cert, a.key, err = pkiutil.TryLoadCertAndKeyFromDisk(p.dir, name); err != nil {
			return err
		}
		if err := pkiutil.ValidateCertPeriod(a.cert, 0); err != nil {
			return fmt.Errorf("%s: %w: remove %s, and the next start creates new certificates", p.path(name+".crt"), err, p.dir)
		}
	}
	return nil
}

func (p *pki) writePairs() error {
	serving, err := p.serving.issue(certutil.Config{CommonName: "kube-apiserver", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, AltNames: certutil.AltNames{
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPs:      []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}})
	if err != nil {
		return err
	}
	proxy, err := p.proxy.client(proxyUser, nil)
	if err != nil {
		return err
	}
	// The signing key of service account tokens belongs to no certificate.
	tokens, err := pkiutil.NewPrivateKey(kubeadm.EncryptionAlgorithmECDSAP256)
	if err != nil {
		return err
	}
	return errors.Join(pkiutil.WriteCertAndKey(p.dir, "apiserver", serving.cert, serving.key),
		pkiutil.WriteCertAndKey(p.dir, "proxy", proxy.cert, proxy.key), pkiutil.WriteKey(p.dir, "tokens", tokens))
}

// proxyUser is the user that the aggregation layer authenticates as.
const proxyUser = "berth-front-proxy"

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }
