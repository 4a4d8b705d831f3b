package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// passwordVariable has the password of the key, if it has one.
const passwordVariable = "MINISIGN_PASSWORD"

func sign(dir, key, password string) error {
	text, err := os.ReadFile(key)
	if err != nil {
		return fmt.Errorf("-key: %w", err)
	}
	secret, err := secretKey(text, password)
	if err != nil {
		return fmt.Errorf("-key: %s: %w: want a secret key, as minisign -G writes it, and its password in %s", key, err, passwordVariable)
	}
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return err
	}
	// The comment has no time, so that the same key gives the same signature.
	signature := minisign.SignWithComments(secret, sums, "file:"+sumsFile, "signature of Berth's "+sumsFile)
	return os.WriteFile(filepath.Join(dir, signatureFile), signature, 0o644)
}

func secretKey(text []byte, password string) (key minisign.PrivateKey, err error) {
	if minisign.IsEncrypted(text) {
		return minisign.DecryptKey(password, text)
	}
	return key, key.UnmarshalText(text)
}

// verifySignature returns an error unless the owner of the public key signed the sums. Without a
// key it checks nothing.
func verifySignature(dir, publicKey string) error {
	if publicKey == "" {
		return nil
	}
	key, err := minisign.PublicKeyFromFile(publicKey)
	if err != nil {
		return fmt.Errorf("-public-key: %s: %w: want a public key, as minisign -G writes it", publicKey, err)
	}
	path := filepath.Join(dir, signatureFile)
	signature, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: want the signature of %s (make release SIGN_KEY=FILE writes it)", err, sumsFile)
	}
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return err
	}
	if !minisign.Verify(key, sums, signature) {
		return fmt.Errorf("%s: not a signature of %s by the key %s: fetch both files again from the owner of the key", path, sumsFile, strings.TrimSpace(publicKey))
	}
	return nil
}
