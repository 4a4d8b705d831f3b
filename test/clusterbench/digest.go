package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// digest returns a hash of this program and of the scheduler's binary.
func digest(scheduler string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, name := range []string{self, scheduler} {
		program, err := os.Open(name)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(hash, program)
		if err = errors.Join(err, program.Close()); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:8]), nil
}
