package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/berth-dev/berth/internal/kubeletstate"
)

// fileEvents are events below the kubelet's root directory.
type fileEvents struct {
	// Changed gets a value when a checkpoint may have been replaced. It buffers one value.
	Changed chan struct{}
	// Restarted gets a value when the kubelet has started and created the socket of its device
	// manager again.
	Restarted chan struct{}
}

// kubeletSocket is the socket that the kubelet creates when it starts
// (pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go).
const kubeletSocket = "kubelet.sock"

// moreWatchers adds advice to an error: if the system allows no more watches, it names the limit to
// raise.
func moreWatchers(err error) error {
	if errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("%w: want a larger sysctl fs.inotify.max_user_instances (1024 is enough), or a higher limit on open files", err)
	}
	return err
}

// watchFiles watches the directories of the checkpoints, because the kubelet replaces the files by
// renaming. The returned function stops the watch.
func watchFiles(root, devices string) (*fileEvents, func() error, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", root, moreWatchers(err))
	}
	if err := w.Add(root); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("watch %s: %w", root, err), w.Close())
	}
	if err := w.Add(devices); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(fmt.Errorf("watch %s: %w", devices, err), w.Close())
	}
	events := &fileEvents{Changed: make(chan struct{}, 1), Restarted: make(chan struct{}, 1)}
	go events.follow(w, devices)
	return events, w.Close, nil
}

func (f *fileEvents) follow(w *fsnotify.Watcher, devices string) {
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			f.handle(w, e, devices)
		case _, ok := <-w.Errors: // the queue overflowed, so anything may have happened
			if !ok {
				return
			}
			poke(f.Changed)
			poke(f.Restarted)
		}
	}
}

func (f *fileEvents) handle(w *fsnotify.Watcher, e fsnotify.Event, devices string) {
	base := filepath.Base(e.Name)
	switch {
	case e.Name == devices && e.Has(fsnotify.Create):
		_ = w.Add(devices) // if the directory is gone, its creation is a later event
		if _, err := os.Lstat(filepath.Join(devices, kubeletSocket)); err == nil {
			poke(f.Restarted) // the kubelet created the socket before the watch began
		}
		poke(f.Changed)
	case filepath.Dir(e.Name) == devices && base == kubeletSocket && e.Has(fsnotify.Create):
		poke(f.Restarted)
	case base == kubeletstate.CPUFile, base == kubeletstate.MemoryFile, base == kubeletstate.AdmittedFile,
		base == filepath.Base(kubeletstate.DeviceFile):
		poke(f.Changed)
	}
}

// kubeletStart returns the time when the running kubelet created its socket, which is after it has
// read its configuration and just before it admits its first pods. It returns zero while no program
// listens on the socket, for example after a kubelet was killed, or while the next kubelet waits
// for its runtime.
func kubeletStart(devices string) (at time.Time) {
	path := filepath.Join(devices, kubeletSocket)
	conn, err := net.Dial("unix", path)
	if err != nil {
		return at
	}
	_ = conn.Close() // only the success of the connection matters: a kubelet listens
	if info, err := os.Stat(path); err == nil {
		at = info.ModTime()
	}
	return at
}

// socketMade returns the time when the newest kubelet created its socket, or zero.
func socketMade(devices string) (at time.Time) {
	if info, err := os.Stat(filepath.Join(devices, kubeletSocket)); err == nil {
		at = info.ModTime()
	}
	return at
}

// kubeletAge returns the time since kubeletStart, or 0 if it is not known.
func kubeletAge(devices string) time.Duration {
	at := kubeletStart(devices)
	if at.IsZero() {
		return 0
	}
	return max(0, time.Since(at))
}

// poke puts a value into the channel unless it already has one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
