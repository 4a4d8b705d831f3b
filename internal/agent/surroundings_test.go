package agent

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

// TestDeviceFingerprint: if a function becomes a virtual one, the fingerprint changes.
func TestDeviceFingerprint(t *testing.T) {
	f := fstest.MapFS{
		"sys/bus/pci/devices/0000:3b:00.0/class": {}, "sys/bus/pci/devices/0000:3b:00.1/class": {},
	}
	print := DeviceFingerprint(f)
	was := print()
	f["sys/bus/pci/devices/0000:3b:00.1/physfn"] = &fstest.MapFile{Data: []byte("../0000:3b:00.0"), Mode: fs.ModeSymlink}
	is := print()
	if was == is || print() != is {
		t.Errorf("%q, then %q", was, is)
	}
	delete(f, "sys/bus/pci/devices/0000:3b:00.1/class")
	delete(f, "sys/bus/pci/devices/0000:3b:00.1/physfn")
	if print() == is {
		t.Error("a function has gone")
	}
}
