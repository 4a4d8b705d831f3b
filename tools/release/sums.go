package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// sumsFile lists the release's files as sha256sum does.
	sumsFile = "SHA256SUMS"
	// signatureFile is the signature of the sums, in minisign's format
	// (jedisct1.github.io/minisign). It covers every file, because the sums do.
	signatureFile = sumsFile + ".minisig"
)

func writeSums(dir string) error {
	names, err := filesIn(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(text.String()), 0o644)
}

func readSums(dir string) (map[string]string, error) {
	path := filepath.Join(dir, sumsFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: want the folder of a release, written by make release", err)
	}
	defer file.Close()
	sums := map[string]string{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || len(sum) != hex.EncodedLen(sha256.Size) || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s:%d: %q: want a SHA-256 sum, two spaces and the name of a file", path, n, lines.Text())
		}
		sums[name] = sum
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("%s: empty: want a line for each file", path)
	}
	return sums, lines.Err()
}

// filesIn lists the files of a release by name, without the checksums and their signature.
func filesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != sumsFile && e.Name() != signatureFile {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
