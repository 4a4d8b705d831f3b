package main

import (
	"fmt"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// verify checks that every file of a release exists with its checksum and that every image has its
// named content. The provenance must be about these files, and the owner of the public key must
// have signed the sums ("" skips this check). The result is the number of files.
func verify(dir, publicKey string) (int, error) {
	sums, err := readSums(dir)
	if err != nil {
		return 0, err
	}
	if err := verifySignature(dir, publicKey); err != nil {
		return 0, err
	}
	names, err := filesIn(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if sums[name] == "" {
			return 0, fmt.Errorf("%s: %s is not listed: want only the files of one release", filepath.Join(dir, sumsFile), name)
		}
	}
	for name, want := range sums {
		if err := verifyFile(filepath.Join(dir, name), want); err != nil {
			return 0, err
		}
	}
	return len(sums), verifyProvenance(dir, sums)
}

// verifyFile checks that a file exists with its checksum, and that an image has its named content.
func verifyFile(path, sum string) error {
	// An error about an image's content is more precise than an error about its checksum.
	if strings.HasSuffix(path, archiveSuffix) {
		if err := withIndexes(path, func(i v1.ImageIndex) error { return validate.Index(i) }); err != nil {
			return err
		}
	}
	got, err := sumOf(path)
	if err != nil {
		return err
	}
	if got != sum {
		return fmt.Errorf("%s: sha256 %s: want %s, as %s lists; fetch or build the file again", path, got, sum, sumsFile)
	}
	return nil
}
