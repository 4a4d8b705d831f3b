package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/internal/atomicfile"
)

// stateFile is a file in Options.StateDir, from which a restarted agent reads what it knew. limit
// is the maximum size in bytes.
type stateFile struct {
	name  string
	limit int64
}

// read returns the path and the content of the file in the folder dir. The error wraps
// fs.ErrNotExist if there is no file. read also returns an error for a file that the agent cannot
// have written.
func (f stateFile) read(dir string) (path string, text []byte, err error) {
	path = filepath.Join(dir, f.name)
	info, err := os.Lstat(path)
	if err != nil {
		return path, nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its other end
		return path, nil, fmt.Errorf("%s: want a regular file, not a link, a folder or a special file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return path, nil, err
	}
	defer file.Close()
	text, err = io.ReadAll(io.LimitReader(file, f.limit+1))
	if err != nil {
		return path, nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(text)) > f.limit {
		return path, nil, fmt.Errorf("%s: more than %d bytes: want a file that the agent wrote", path, f.limit)
	}
	return path, text, nil
}

// write replaces the file in the folder dir, and creates the folder if necessary. A power failure
// leaves the old file or the new one, never a mixture.
func (f stateFile) write(dir string, content any) error {
	text, err := json.Marshal(content)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = atomicfile.WriteText(filepath.Join(dir, f.name), 0o600, text)
	}
	return err
}
