package approval

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/deployster-go/deployster/internal/regularfile"
)

const maxKeyFile = 16 << 10

// CreateKey makes a key and writes its private half to a file, which must not exist, and which
// only its owner may read. It returns the public half.
func CreateKey(path string) (ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("writing the key: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("writing the private key: %w", err)
	}
	err = pem.Encode(file, &pem.Block{Type: "PRIVATE KEY", Bytes: text})
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = os.Remove(path) // half a key is none
		return nil, fmt.Errorf("writing the private key to %s: %w", path, err)
	}
	return public, nil
}

// ReadPrivate reads a private key, which others must not be able to read.
func ReadPrivate(path string) (ed25519.PrivateKey, error) {
	block, mode, err := readBlock(path)
	if err != nil {
		return nil, err
	}
	if mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("private key %s can be read or written by others (%s): chmod 600 %s", path, mode.Perm(), path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block)
	if key, ok := parsed.(ed25519.PrivateKey); err == nil && ok {
		return key, nil
	}
	return nil, fmt.Errorf("%s holds no private key of Ed25519 in PEM: make one with deployster pipeline key create, or openssl genpkey -algorithm ed25519", path)
}

// ReadPublic reads a public key.
func ReadPublic(path string) (ed25519.PublicKey, error) {
	block, _, err := readBlock(path)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(block)
	if key, ok := parsed.(ed25519.PublicKey); err == nil && ok {
		return key, nil
	}
	return nil, fmt.Errorf("%s holds no public key of Ed25519 in PEM: openssl pkey -in PRIVATE -pubout writes that of a private key", path)
}

// readBlock reads the first block of a file in PEM. What is no regular file is not read.
func readBlock(path string) ([]byte, os.FileMode, error) {
	file, info, err := regularfile.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the key: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return nil, 0, fmt.Errorf("reading the key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, 0, fmt.Errorf("%s holds no key in PEM", path)
	}
	return block.Bytes, info.Mode(), nil
}
