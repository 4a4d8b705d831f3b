package sysfs

import (
	"io/fs"

	"github.com/berth-dev/berth/topology"
)

// Read returns the machine that fsys describes. The root of fsys is the folder that contains sys/.
// On a live machine it is "/". The error is a *Error, or a *topology.Violation if the files are
// well formed but contradict each other.
func Read(fsys fs.FS) (*topology.Machine, error) {
	r := reader{tree: tree{fsys}}
	for _, step := range []func() error{r.readOnline, r.readCores, r.readPackages, r.readDies, r.readL3s, r.readNodes, r.readDevices, r.readLinks} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	r.nameCores()
	if err := r.m.Check(); err != nil {
		return nil, err
	}
	return &r.m, nil
}

// ReadOnline returns Machine.Online of the machine that Read would return. On a current kernel, it
// reads only one folder and two files. The error is a *Error.
func ReadOnline(fsys fs.FS) (topology.CPUSet, error) {
	r := reader{tree: tree{fsys}}
	err := r.readOnline()
	return r.m.Online, err
}

// readOnline determines the online CPUs. The file "online" is missing in filtered captures and old
// kernels. Without this file, a CPU with a folder is online unless the file "online" in that folder
// contains 0.
func (r *reader) readOnline() error {
	ids, err := r.numbered(cpuDir, "cpu", topology.MaxCPUs-1)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.dirs.Add(topology.CPUID(id))
	}
	online, ok, err := r.cpuList(cpuDir + "/online")
	if err != nil {
		return err
	}
	if !ok {
		if online, err = r.onlineOneByOne(); err != nil {
			return err
		}
	}
	present, ok, err := r.cpuList(cpuDir + "/present")
	if err != nil {
		return err
	}
	if !ok {
		present = r.dirs
	}
	if online.IsEmpty() {
		return &Error{Path: cpuDir, Field: "online", Value: "", Want: "at least one CPU: a list in the file online, or folders cpuN"}
	}
	r.m.Online, r.m.Offline = online, present.AndNot(&online)
	return nil
}

func (r *reader) onlineOneByOne() (topology.CPUSet, error) {
	online := r.dirs
	for id := range r.dirs.All() {
		name := r.cpu(id) + "/online"
		text, ok, err := r.text(name)
		if err != nil {
			return online, err
		}
		switch {
		case !ok || text == "" || text == "1": // CPU 0 often has no such file, and in a capture the file may be empty
		case text == "0":
			online.Remove(id)
		default:
			return online, &Error{Path: name, Field: "online", Value: text, Want: "0 or 1"}
		}
	}
	return online, nil
}
