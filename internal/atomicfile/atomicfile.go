// Package atomicfile replaces files atomically: readers never see an incomplete file, not even
// after a power failure.
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file with the output of write. If Write returns an error, the file has not
// changed. Write first writes to a temporary file in the same folder, whose name begins with a dot
// and ends in .new.
func Write(name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.new")
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		wrong.Path = name
	}
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

// WriteText replaces the file with the text.
func WriteText(name string, mode fs.FileMode, text []byte) error {
	return Write(name, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
