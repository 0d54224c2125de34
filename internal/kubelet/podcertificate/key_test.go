package podcertificate

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
)

// TestKeys: each type of key is what its name says, can be asked for, and can
// be read again.
func TestKeys(t *testing.T) {
	for keyType := range keyTypes {
		key, err := newKey(keyType)
		if err != nil {
			t.Fatal(err)
		}
		der, err := stub(key)
		if err != nil {
			t.Fatal(err)
		}
		asked, err := x509.ParseCertificateRequest(der)
		if err != nil {
			t.Fatal(err)
		}
		if err := asked.CheckSignature(); err != nil || len(asked.Subject.Names)+len(asked.DNSNames) != 0 {
			t.Errorf("%s: the stub says %v: %v", keyType, asked.Subject, err)
		}
		is := ""
		switch k := asked.PublicKey.(type) {
		case *rsa.PublicKey:
			is = fmt.Sprint("RSA", k.N.BitLen())
		case *ecdsa.PublicKey:
			is = fmt.Sprint("ECDSAP", k.Params().BitSize)
		case ed25519.PublicKey:
			is = "ED25519"
		}
		if is != keyType {
			t.Errorf("%s is %s", keyType, is)
		}
		text, err := encodeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		read, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if same, ok := key.(interface{ Equal(x any) bool }); err != nil || ok && !same.Equal(read) {
			t.Errorf("%s is another when read again: %v", keyType, err)
		}
	}
	if _, err := newKey("RSA1024"); err == nil {
		t.Error("made a key of an unknown type")
	}
}
