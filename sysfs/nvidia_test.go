package sysfs_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/berth-dev/berth/sysfs"
)

// information is the driver's text about a GPU.
const information = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 10\nGPU UUID: \t GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b\nVideo BIOS: \t 96.00.99.00.01\n" +
	"Bus Type: \t PCIe\nBus Location: \t 0000:62:00.0\nDevice Minor: \t 5\nGPU Excluded:\t No\n"

// TestReadNVIDIA maps UUIDs to addresses, and handles other texts of the driver.
func TestReadNVIDIA(t *testing.T) {
	file := func(address string) string { return "proc/driver/nvidia/gpus/" + address + "/information" }
	asleep := strings.Replace(information, "GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b", "GPU-????????-????-????-????-????????????", 1)
	files := fstest.MapFS{
		file("0000:62:00.0"):                  {Data: []byte(information)},
		file("000A:63:00.0"):                  {Data: []byte(strings.Replace(information, "GPU-9", "GPU-a", 1))},
		file("0000:64:00.0"):                  {Data: []byte(asleep)},
		file("0000:65:00.0"):                  {Data: []byte("GPU UUID\nno line\n\x00")},
		"proc/driver/nvidia/gpus/stray":       {Data: []byte("no folder")},
		"proc/driver/nvidia/gpus/0/registry":  {Data: []byte("Binary: \"\"")},
		"proc/driver/nvidia/gpus/1/power":     {Data: nil},
		"proc/driver/nvidia/version":          {Data: []byte("NVRM version")},
		"sys/devices/system/cpu/online":       {Data: []byte("0")},
		"proc/driver/nvidia/gpus/2/informati": {Data: []byte(information)},
	}
	got, err := sysfs.ReadNVIDIA(files)
	want := map[string]string{"GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b": "0000:62:00.0", "GPU-a221d5d1-b60b-a624-bf14-0a1819cfda3b": "000a:63:00.0"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := sysfs.ReadNVIDIA(fstest.MapFS{}); err != nil || len(got) > 0 {
		t.Errorf("without the driver: %v, %v", got, err)
	}
	files[file("0000:66:00.0")] = files[file("0000:62:00.0")]
	var wrong *sysfs.Error
	if _, err := sysfs.ReadNVIDIA(files); !errors.As(err, &wrong) || wrong.Field != "GPU UUID" || !strings.Contains(err.Error(), "0000:62:00.0") {
		t.Errorf("one UUID twice: %v", err)
	}
	files[file("0000:66:00.0")] = &fstest.MapFile{Data: make([]byte, 1<<17)}
	if _, err := sysfs.ReadNVIDIA(files); !errors.As(err, &wrong) {
		t.Errorf("an endless file: %v", err)
	}
}
