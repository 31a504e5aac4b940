package mirrors

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"strings"
	"unicode/utf16"
)

// trust is every certificate authority that this machine's tools trust.
type trust struct {
	certs []*x509.Certificate
	from  []string // files and variables, in order
}

// systemBundles are where distributions keep the authorities; the first that
// is there counts.
func systemBundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Alpine
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem", // openSUSE
		"/etc/ssl/cert.pem",
	}
}

// bundleVariables name a file of authorities for one tool or another.
func bundleVariables() []string {
	return []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
		"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
	}
}

// readTrust gathers the authorities of all files: a tool's own bundle often
// holds nothing but the company's, and one file must do for all tools.
func (s *Settings) readTrust(h Host) error {
	for _, p := range systemBundles() {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		if s.trust.add(b, p) {
			break
		}
	}
	for _, name := range bundleVariables() {
		p, _ := h.env(name)
		if err := s.trustFile(h, p, name); err != nil {
			return err
		}
	}
	return nil
}

// trustFile adds a file that a setting names.
func (s *Settings) trustFile(h Host, p, from string) error {
	if p == "" {
		return nil
	}
	b, err := h.read(p)
	if err != nil {
		return err
	}
	if !s.trust.add(b, from+" "+p) {
		s.LeftOut = append(s.LeftOut, from+": "+p+" holds no certificate that can be read")
	}
	return nil
}

// add takes the certificates of a PEM file and reports whether it has any.
func (t *trust) add(b []byte, from string) bool {
	any, fresh := false, false
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" && block.Type != "TRUSTED CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // as OpenSSL passes over what it does not know
		}
		any = true
		if !t.has(c) {
			t.certs, fresh = append(t.certs, c), true
		}
	}
	if fresh {
		t.from = append(t.from, from)
	}
	return any
}

func (t *trust) has(c *x509.Certificate) bool {
	for _, o := range t.certs {
		if o.Equal(c) {
			return true
		}
	}
	return false
}

// pem is the bundle for every tool but Java.
func (t *trust) pem() []byte {
	var b bytes.Buffer
	for _, c := range t.certs {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // writes to memory do not fail
	}
	return b.Bytes()
}

// keystorePassword guards nothing: the certificates are public, but Java wants
// one. It is the one of every JDK's own trust store.
const keystorePassword = "changeit"

// jks is the bundle as a Java key store in the old format, which every Java
// reads and which needs no cipher. Format: OpenJDK's
// sun.security.provider.JavaKeyStore, version 2.
func (t *trust) jks() []byte {
	b := binary.BigEndian.AppendUint32(nil, 0xfeedfeed)
	b = binary.BigEndian.AppendUint32(b, 2)
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.certs)))
	for i, c := range t.certs {
		b = binary.BigEndian.AppendUint32(b, 2) // a trusted certificate
		b = utf(b, alias(i))
		b = binary.BigEndian.AppendUint64(b, uint64(max(0, c.NotBefore.UnixMilli())))
		b = utf(b, "X.509")
		b = binary.BigEndian.AppendUint32(b, uint32(len(c.Raw)))
		b = append(b, c.Raw...)
	}
	h := sha1.New()
	for _, u := range utf16.Encode([]rune(keystorePassword)) {
		h.Write([]byte{byte(u >> 8), byte(u)})
	}
	h.Write([]byte("Mighty Aphrodite"))
	h.Write(b)
	return h.Sum(b)
}

func alias(i int) string {
	const digits = "0123456789"
	s := ""
	for ; i > 0 || s == ""; i /= 10 {
		s = digits[i%10:i%10+1] + s
	}
	return "ca" + strings.Repeat("0", max(0, 4-len(s))) + s
}

func utf(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
