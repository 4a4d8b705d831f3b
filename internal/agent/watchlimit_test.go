package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// TestMoreWatchers: an error at the kernel's limit names that limit. Other errors do not change.
func TestMoreWatchers(t *testing.T) {
	err := moreWatchers(fmt.Errorf("inotify_init1: %w", syscall.EMFILE))
	if !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "fs.inotify.max_user_instances") {
		t.Errorf("%v: want the error, and the limit's name", err)
	}
	if err := moreWatchers(fs.ErrNotExist); err != fs.ErrNotExist {
		t.Errorf("%v: want it unchanged", err)
	}
}
