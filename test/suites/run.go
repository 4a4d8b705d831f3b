package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-dev/berth/test/suites/under"
)

// suite is a built package of tests.
type suite struct {
	binary string
	// tmp is the folder in which the tests and etcd run.
	tmp   string
	limit time.Duration
	log   *os.File
}

// result has the results of tests by name, and the time that they took together.
type result struct {
	passed, failed map[string]bool
	took           time.Duration
}

var errNoTest = errors.New("no test has finished")

// verdict matches the result of a test. It does not match skipped tests.
var verdict = regexp.MustCompile(`^\s*--- (PASS|FAIL): (\S+) \(`)

// runAll runs all tests with a scheduler, again if none has finished. On a busy machine, a test can
// stop its API server before the server's hook rbac/bootstrap-roles has succeeded. The hook then
// ends the process of all tests after a minute.
func (s *suite) runAll(ctx context.Context, mode string, repeat int) (r result, err error) {
	for range 1 + repeat {
		if r, err = s.run(ctx, mode, ""); !errors.Is(err, errNoTest) {
			break
		}
	}
	return r, err
}

// run runs the named test with a scheduler, or all tests if the name is "".
func (s *suite) run(ctx context.Context, mode, test string) (result, error) {
	args := []string{"-test.v", "-test.timeout=" + s.limit.String()}
	if test != "" {
		var parts []string
		for _, part := range strings.Split(test, "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		args = append(args, "-test.run="+strings.Join(parts, "/"))
	}
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir = s.tmp
	cmd.Env = append(os.Environ(), under.Mode+"="+mode, "PATH="+s.tmp+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, s.log
	begun := time.Now()
	// The tests start etcd. It keeps running if they end before their own clean-up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually no process is left
	}
	r := read(out.Bytes())
	r.took = time.Since(begun)
	fmt.Fprintf(s.log, "=== %s %s %s\n%s", filepath.Base(s.binary), mode, test, out.Bytes())
	if err != nil && len(r.passed)+len(r.failed) == 0 {
		return r, fmt.Errorf("%s under %s: %w: %w", filepath.Base(s.binary), mode, err, errNoTest)
	}
	return r, nil
}

func read(out []byte) result {
	r := result{passed: map[string]bool{}, failed: map[string]bool{}}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		switch m := verdict.FindStringSubmatch(lines.Text()); {
		case m == nil:
		case m[1] == "PASS":
			r.passed[m[2]] = true
		default:
			r.failed[m[2]] = true
		}
	}
	return r
}

// differing returns the tests without subtests that pass with kube-scheduler but not with Berth.
func differing(stock, berth result) []string {
	var out []string
	for _, test := range slices.Sorted(maps.Keys(stock.passed)) {
		whole := slices.ContainsFunc(slices.Collect(maps.Keys(stock.passed)), func(other string) bool { return strings.HasPrefix(other, test+"/") })
		if !whole && !berth.passed[test] {
			out = append(out, test)
		}
	}
	return out
}

// differs runs a test several times with each scheduler. It reports if the test passes less often
// with Berth.
func (s *suite) differs(ctx context.Context, test string, times int) (bool, error) {
	passed := map[string]int{}
	for range times {
		for _, mode := range []string{"stock", under.Berth} {
			r, err := s.run(ctx, mode, test)
			if err != nil {
				return false, err
			}
			if r.passed[test] {
				passed[mode]++
			}
		}
	}
	fmt.Printf("  %s: passes %d times of %d under kube-scheduler, %d under Berth\n", test, passed["stock"], times, passed[under.Berth])
	return passed[under.Berth] < passed["stock"], nil
}
