package demo

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/hollow"
	"github.com/berth-dev/berth/internal/wire"
)

// maxWatches is the sysctl that limits the inotify instances of a user. The kernel's default is
// 128.
const maxWatches = "/proc/sys/fs/inotify/max_user_instances"

// Numbers of inotify instances. The API server uses one for each certificate and key that may be
// replaced.
const (
	serverWatches  = 6
	kubeletWatches = 1
	agentWatches   = 1
)

func watchesFor(nodes []hollow.Spec, agents bool) int {
	need := serverWatches + kubeletWatches*len(nodes)
	for i := range nodes {
		if nodes[i].NRI {
			need++ // the container runtime watches the CDI specifications
		}
		if agents {
			need += agentWatches
		}
		if agents && nodes[i].Devices != "" {
			need++ // the agent's device plugins watch a folder
		}
	}
	return need
}

// checkWatches returns an error if the user cannot open as many inotify instances as a cluster
// needs. It tries to open them, because the kernel does not report the number in use. Without this
// check a part of the cluster would fail later.
func checkWatches(nodes []hollow.Spec, agents bool) error {
	need := watchesFor(nodes, agents)
	made := make([]int, 0, need)
	defer func() {
		for _, fd := range made {
			unix.Close(fd)
		}
	}()
	for range need {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		switch {
		case errors.Is(err, unix.EMFILE):
			return fewWatches(len(nodes), need, len(made))
		case err != nil:
			return fmt.Errorf("inotify: %w", err)
		}
		made = append(made, fd)
	}
	return nil
}

func fewWatches(nodes, need, left int) error {
	limit, advised := "unknown", 1024
	if data, err := os.ReadFile(maxWatches); err == nil {
		limit = strings.TrimSpace(string(data))
		if n, err := strconv.Atoi(limit); err == nil {
			advised = max(advised, n+need-left)
		}
	}
	return fmt.Errorf("a cluster of %s needs %d inotify instances, but this user can create only %d more (the limit is %s): "+
		"run `sysctl fs.inotify.max_user_instances=%d` as root, or use fewer nodes", wire.Counted(nodes, "node"), need, left, limit, advised)
}
