// Package signing signs commits as git does, with a key of SSH or OpenPGP.
package signing

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"
)

// Key signs.
type Key struct {
	sign func(text []byte, now time.Time) (string, error)
}

var (
	errNeedsPassphrase = errors.New("the key has a passphrase: name the file of that (signing_passphrase)")
	errPassphrase      = errors.New("the passphrase does not open the key")
)

// Read reads a private key as ssh-keygen or gpg --armor --export-secret-keys writes it. A key that
// is not encrypted ignores the passphrase, which may be "".
func Read(text, passphrase string) (*Key, error) {
	if strings.Contains(text, "BEGIN PGP PRIVATE KEY BLOCK") {
		return readOpenPGP(text, passphrase)
	}
	return readSSH(text, passphrase)
}

// Sign returns the signature of a commit, as git keeps it in the commit.
func (k *Key) Sign(text []byte, now time.Time) (string, error) { return k.sign(text, now) }

func readSSH(text, passphrase string) (*Key, error) {
	signer, err := ssh.ParsePrivateKey([]byte(text))
	var encrypted *ssh.PassphraseMissingError
	if errors.As(err, &encrypted) {
		if passphrase == "" {
			return nil, errNeedsPassphrase
		}
		if signer, err = ssh.ParsePrivateKeyWithPassphrase([]byte(text), []byte(passphrase)); err != nil {
			return nil, errPassphrase
		}
	}
	if err != nil {
		return nil, errors.New("it holds no private key of SSH (ssh-keygen) or OpenPGP (gpg --armor --export-secret-keys)")
	}
	return &Key{func(text []byte, _ time.Time) (string, error) { return signSSH(signer, text) }}, nil
}

// signSSH makes a signature as PROTOCOL.sshsig of OpenSSH describes it.
func signSSH(signer ssh.Signer, text []byte) (string, error) {
	const (
		magic     = "SSHSIG"
		namespace = "git"
		hash      = "sha512"
	)
	sum := sha512.Sum512(text)
	signed := append([]byte(magic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{namespace, "", hash, sum[:]})...)
	signature, err := sign(signer, signed)
	if err != nil {
		return "", fmt.Errorf("signing with the key of SSH: %w", err)
	}
	blob := append([]byte(magic), ssh.Marshal(struct {
		Version                   uint32
		Key                       []byte
		Namespace, Reserved, Hash string
		Signature                 []byte
	}{1, signer.PublicKey().Marshal(), namespace, "", hash, ssh.Marshal(signature)})...)
	var armored strings.Builder
	armored.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	const width = 70
	for encoded := base64.StdEncoding.EncodeToString(blob); encoded != ""; {
		line := encoded[:min(width, len(encoded))]
		armored.WriteString(line + "\n")
		encoded = encoded[len(line):]
	}
	armored.WriteString("-----END SSH SIGNATURE-----\n")
	return armored.String(), nil
}

// sign has a key of RSA sign with SHA-512: OpenSSH refuses the SHA-1 that its type is named after.
func sign(signer ssh.Signer, text []byte) (*ssh.Signature, error) {
	if signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		if by, can := signer.(ssh.AlgorithmSigner); can {
			return by.SignWithAlgorithm(rand.Reader, text, ssh.KeyAlgoRSASHA512)
		}
	}
	return signer.Sign(rand.Reader, text)
}

func readOpenPGP(text, passphrase string) (*Key, error) {
	all, err := openpgp.ReadArmoredKeyRing(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading the key of OpenPGP: %w", err)
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("it holds %d keys of OpenPGP, not one", len(all))
	}
	entity := all[0]
	keys := []*packet.PrivateKey{entity.PrivateKey}
	for _, sub := range entity.Subkeys {
		keys = append(keys, sub.PrivateKey)
	}
	for _, key := range keys {
		if key == nil || key.Dummy() || !key.Encrypted {
			continue
		}
		if passphrase == "" {
			return nil, errNeedsPassphrase
		}
		if err := key.Decrypt([]byte(passphrase)); err != nil {
			return nil, errPassphrase
		}
	}
	return &Key{func(text []byte, now time.Time) (string, error) {
		var armored bytes.Buffer
		err := openpgp.ArmoredDetachSign(&armored, entity, bytes.NewReader(text), &packet.Config{Time: func() time.Time { return now }})
		if err != nil {
			return "", fmt.Errorf("signing with the key of OpenPGP: %w", err)
		}
		return armored.String() + "\n", nil
	}}, nil
}
