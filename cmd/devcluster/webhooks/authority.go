package webhooks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// clockSkew is how long before its making a certificate is valid.
const clockSkew = time.Minute

// Authority is a certificate authority. Its key stays in memory.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// NewAuthority makes an authority that is valid from now on for the given time.
func NewAuthority(now time.Time, valid time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the authority: %w", err)
	}
	template, err := newTemplate("nodewright-local-ca", now, valid)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate of the authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read certificate of the authority: %w", err)
	}
	return &Authority{certificate: certificate, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// CABundle is the certificate of the authority, as a webhook configuration has it.
func (a *Authority) CABundle() []byte { return a.pem }

// Issue makes a serving certificate for the hosts and its key, both as PEM.
func (a *Authority) Issue(now time.Time, valid time.Duration, hosts ...string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make serving key: %w", err)
	}
	template, err := newTemplate(hosts[0], now, valid)
	if err != nil {
		return nil, nil, err
	}
	template.DNSNames = hosts
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("make serving certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode serving key: %w", err)
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER), nil
}

func newTemplate(name string, now time.Time, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	// The common name has room for 64 bytes.
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name[:min(len(name), 64)]},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(valid),
	}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
