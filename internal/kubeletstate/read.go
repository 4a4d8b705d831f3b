package kubeletstate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"
)

// The checkpoints, relative to the kubelet's root directory.
const (
	CPUFile    = "cpu_manager_state"
	MemoryFile = "memory_manager_state"
	DeviceFile = "device-plugins/kubelet_internal_checkpoint"
	// AdmittedFile exists since Kubernetes 1.33.
	AdmittedFile = "allocated_pods_state"
)

// Files returns the files below a kubelet's root directory, with devices as the folder of the
// device manager.
func Files(root, devices fs.FS) fs.FS { return files{root, devices} }

type files struct{ root, devices fs.FS }

func (f files) Open(name string) (fs.File, error) {
	if name == DeviceFile {
		return f.devices.Open(path.Base(name))
	}
	return f.root.Open(name)
}

// MaxFileBytes limits the size of a checkpoint. A checkpoint with 250 pods of 100 containers is
// much smaller.
const MaxFileBytes = 16 << 20

// State is the content of a kubelet's checkpoints. A field is nil if its file does not exist. The
// kubelet writes the files of the CPU and memory managers when these managers start, with any
// policy. It writes the file of the device manager when the first device plugin registers. It
// writes allocated_pods_state when it first admits a pod.
type State struct {
	CPU      *CPUState
	Memory   *MemoryState
	Devices  *DeviceState
	Admitted *AdmittedState
}

// Read reads the checkpoints below a kubelet's root directory. The error is an *Error or wraps an
// error of fsys.
func Read(fsys fs.FS) (State, error) {
	raw, err := ReadRaw(fsys)
	if err != nil {
		return State{}, err
	}
	return raw.Parse()
}

// Raw has the bytes of the checkpoints. A field is nil if its file does not exist.
type Raw struct {
	CPU, Memory, Devices, Admitted []byte
}

// Equal reports whether two readings have the same content.
func (r Raw) Equal(o Raw) bool {
	return bytes.Equal(r.CPU, o.CPU) && bytes.Equal(r.Memory, o.Memory) && bytes.Equal(r.Devices, o.Devices) && bytes.Equal(r.Admitted, o.Admitted)
}

// ReadRaw reads the files without parsing them. It reads AdmittedFile first. In each admission, the
// kubelet writes this file last. So the other files, which are read later, contain all assignments
// to the pods in it.
func ReadRaw(fsys fs.FS) (Raw, error) {
	var raw Raw
	for _, f := range []struct {
		name string
		into *[]byte
	}{{AdmittedFile, &raw.Admitted}, {CPUFile, &raw.CPU}, {MemoryFile, &raw.Memory}, {DeviceFile, &raw.Devices}} {
		data, err := readFile(fsys, f.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Raw{}, err
		}
		*f.into = data
	}
	return raw, nil
}

// Parse parses the result of ReadRaw. If a file is absent, its field is nil. An empty file is an
// error.
func (r Raw) Parse() (State, error) {
	var s State
	var errs [4]error
	s.CPU, errs[0] = parsed(ParseCPU, CPUFile, r.CPU)
	s.Memory, errs[1] = parsed(ParseMemory, MemoryFile, r.Memory)
	s.Devices, errs[2] = parsed(ParseDevices, DeviceFile, r.Devices)
	s.Admitted, errs[3] = parsed(ParseAdmitted, AdmittedFile, r.Admitted)
	for _, err := range errs {
		if err != nil {
			return State{}, err
		}
	}
	return s, nil
}

func parsed[T any](parse func(name string, text []byte) (*T, error), name string, text []byte) (*T, error) {
	if text == nil {
		return nil, nil
	}
	return parse(name, text)
}

// Check refuses a State in which the checkpoint of a manager contradicts itself. The error is an
// *Error.
func (s *State) Check() error {
	if s.CPU != nil {
		if err := s.CPU.Check(CPUFile); err != nil {
			return err
		}
	}
	if s.Memory != nil {
		if err := s.Memory.Check(MemoryFile); err != nil {
			return err
		}
	}
	if s.Devices != nil {
		return s.Devices.Check(DeviceFile)
	}
	return nil
}

func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, errors.New("kubelet checkpoints: this is a file: want the folder that contains it, such as /var/lib/kubelet")
	}
	if err != nil {
		return nil, fmt.Errorf("kubelet checkpoint: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("kubelet checkpoint %s: %w", name, err)
	}
	if len(data) > MaxFileBytes {
		return nil, &Error{File: name, Value: "more bytes", Want: fmt.Sprint("at most ", MaxFileBytes, " bytes")}
	}
	return data, nil
}
