package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// certLife is the time for which certificates are valid. It is longer than any demo, and short
// enough that a stolen certificate is soon useless.
const certLife = 7 * 24 * time.Hour

// authority is a certificate authority with its own key.
type authority struct {
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	pem    []byte
	serial atomic.Int64
}

// keyPair is a certificate and its private key, both in PEM.
type keyPair struct{ cert, key []byte }

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := template(pkix.Name{CommonName: name})
	tmpl.SerialNumber = big.NewInt(1)
	tmpl.IsCA = true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return authorityOf(cert, key), nil
}

// authorityOf returns the authority with the certificate and the key. Serial numbers start from the
// present time, so that a continued authority does not repeat them.
func authorityOf(cert *x509.Certificate, key *ecdsa.PrivateKey) *authority {
	a := &authority{cert: cert, key: key, pem: certPEM(cert.Raw)}
	a.serial.Store(time.Now().UnixNano())
	return a
}

// issue signs tmpl for a new key.
func (a *authority) issue(tmpl *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	tmpl.SerialNumber = big.NewInt(a.serial.Add(1))
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: certPEM(der), key: keyPEM(keyDER)}, nil
}

// keyPEM returns the authority's own key in PEM.
func (a *authority) keyPEM() ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	return keyPEM(der), nil
}

// client returns credentials for a user. The API server reads the user from the common name, and
// the groups from the organisations (k8s.io/apiserver/pkg/authentication/request/x509).
func (a *authority) client(user string, groups []string) (keyPair, error) {
	tmpl := template(pkix.Name{CommonName: user, Organization: groups})
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(tmpl)
}

func (a *authority) server() (keyPair, error) {
	tmpl := template(pkix.Name{CommonName: "kube-apiserver"})
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	tmpl.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	tmpl.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	return a.issue(tmpl)
}

func template(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:               subject,
		NotBefore:             now.Add(-time.Hour), // clocks of other processes may be behind
		NotAfter:              now.Add(certLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// pki has the keys and certificates of one control plane. It has separate authorities for serving,
// for clients and for the front proxy. With a single authority, a serving certificate could
// authenticate a user.
type pki struct {
	dir                    string
	serving, client, proxy *authority
}

// openPKI returns the keys and certificates in dir. If kept is set and dir has them, it reads them.
// Otherwise it creates new ones. If kept is set, dir also contains the keys of the authorities.
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
func (p *pki) authorities() map[string]**authority {
	return map[string]**authority{"serving-ca": &p.serving, "client-ca": &p.client, "proxy-ca": &p.proxy}
}

func (p *pki) make(kept bool) error {
	for name, place := range p.authorities() {
		a, err := newAuthority("berth-" + name)
		if err != nil {
			return err
		}
		*place = a
		if err := p.write(name+".crt", a.pem); err != nil {
			return err
		}
		if !kept {
			continue
		}
		key, err := a.keyPEM()
		if err != nil {
			return err
		}
		if err := p.write(name+".key", key); err != nil {
			return err
		}
	}
	return p.writePairs()
}

// read reads the files of an earlier control plane.
func (p *pki) read() error {
	for name, place := range p.authorities() {
		pair, err := tls.LoadX509KeyPair(p.path(name+".crt"), p.path(name+".key"))
		if err != nil {
			return err
		}
		key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
		if !ok {
			return fmt.Errorf("%s: key is a %T: want an ECDSA key; remove %s to start again", p.path(name+".key"), pair.PrivateKey, p.dir)
		}
		if time.Now().After(pair.Leaf.NotAfter) {
			return fmt.Errorf("%s expired on %v: remove %s to start again", p.path(name+".crt"), pair.Leaf.NotAfter, p.dir)
		}
		*place = authorityOf(pair.Leaf, key)
	}
	return nil
}

func (p *pki) writePairs() error {
	serving, err := p.serving.server()
	if err != nil {
		return err
	}
	proxy, err := p.proxy.client(proxyUser, nil)
	if err != nil {
		return err
	}
	// The signing key of service account tokens belongs to no certificate, but creating a pair is
	// the simplest way to create a key.
	tokens, err := p.client.client("service-account-tokens", nil)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"apiserver.crt": serving.cert, "apiserver.key": serving.key,
		"proxy.crt": proxy.cert, "proxy.key": proxy.key,
		"tokens.key": tokens.key,
	} {
		if err := p.write(name, data); err != nil {
			return err
		}
	}
	return nil
}

// proxyUser is the user that the aggregation layer authenticates as.
const proxyUser = "berth-front-proxy"

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) write(name string, data []byte) error {
	return os.WriteFile(p.path(name), data, 0o600)
}
