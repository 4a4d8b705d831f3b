package agent

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// maxLinks is the maximum number of symbolic links on the way to a file, as in Linux.
const maxLinks = 40

// configWatch reports possible changes of the kubelet's configuration file or a drop-in: the file
// was written or replaced by a rename, or a symbolic link on its path changed.
type configWatch struct {
	// Changed gets a value when a file may have changed. It buffers one value.
	Changed chan struct{}

	paths    configPaths
	w        *fsnotify.Watcher
	concerns concerns
}

// concerns are the directory entries that affect a configuration.
type concerns struct {
	// steps are the file itself and each symbolic link that leads to it.
	steps map[string]bool
	// trees are directories in which every entry matters.
	trees map[string]bool
}

// watchConfig starts watching. The returned function stops it. Without paths it reports nothing.
func watchConfig(paths configPaths) (*configWatch, func() error, error) {
	c := &configWatch{Changed: make(chan struct{}, 1), paths: paths}
	if paths == (configPaths{}) {
		return c, func() error { return nil }, nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, fmt.Errorf("watch the kubelet's configuration: %w", moreWatchers(err))
	}
	c.w = w
	c.arm()
	go c.run()
	return c, w.Close, nil
}

func (c *configWatch) run() {
	for {
		select {
		case e, ok := <-c.w.Events:
			if !ok {
				return
			}
			if e.Op == fsnotify.Chmod || !c.concerns.has(e.Name) {
				continue
			}
		case _, ok := <-c.w.Errors: // the queue overflowed, so anything may have changed
			if !ok {
				return
			}
		}
		c.arm()
		poke(c.Changed)
	}
}

// arm watches the directory entries that matter now. Symbolic links may change in the meantime, so
// arm repeats the walk until all entries that it finds are watched.
func (c *configWatch) arm() {
	for range maxLinks {
		now := c.paths.concerns()
		for _, dir := range c.w.WatchList() {
			if !now.watches(dir) {
				_ = c.w.Remove(dir) // an error means that the watch no longer exists
			}
		}
		for dir := range now.dirs() {
			_ = c.w.Add(dir) // if dir is gone, its parent's watch or the next rescan detects this
		}
		same := maps.Equal(now.steps, c.concerns.steps) && maps.Equal(now.trees, c.concerns.trees)
		if c.concerns = now; same {
			return
		}
	}
}

// has reports whether an event for path matters. If a watched directory is removed, the event has
// the path of the directory.
func (c *concerns) has(path string) bool {
	return c.steps[path] || c.trees[filepath.Dir(path)] || c.watches(path)
}

func (c *concerns) watches(dir string) bool { return c.dirs()[dir] }

// dirs returns the directories of the relevant entries.
func (c *concerns) dirs() map[string]bool {
	out := maps.Clone(c.trees)
	for step := range c.steps {
		out[filepath.Dir(step)] = true
	}
	return out
}

func (p *configPaths) concerns() concerns {
	c := concerns{steps: map[string]bool{}, trees: map[string]bool{}}
	if p.file != "" {
		c.walk(p.file)
	}
	if p.dropIns == "" {
		return c
	}
	// The reader of the drop-ins skips the same unreadable entries.
	_ = filepath.WalkDir(c.walk(p.dropIns), func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case e.IsDir():
			c.trees[path] = true
		case e.Type()&fs.ModeSymlink != 0:
			c.walk(path)
		}
		return nil
	})
	return c
}

// walk follows the symbolic links of path. It adds each link and the final target as a step, and
// returns the final target. If an entry is missing, it adds and returns that entry. The path of a
// step contains no other symbolic links.
func (c *concerns) walk(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path // without a working directory, nothing can be found
	}
	at, rest := "/", components(abs)
	for links := 0; len(rest) > 0 && links < maxLinks; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			c.steps[next] = true
			return next
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		links++
		c.steps[next] = true
		target, err := os.Readlink(next)
		if err != nil {
			return next
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(components(target), rest...)
	}
	c.steps[at] = true
	return at
}

func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}
