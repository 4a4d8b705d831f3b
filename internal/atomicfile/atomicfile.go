// Package atomicfile replaces files so that no reader, and no machine that loses power, has half of
// one.
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes the file what write writes, or leaves it as it is and returns an error. Until then
// the text stands beside it in a file whose name begins with a dot and ends in .new.
func Write(name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.new")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// WriteText makes the text the file's.
func WriteText(name string, mode fs.FileMode, text []byte) error {
	return Write(name, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
