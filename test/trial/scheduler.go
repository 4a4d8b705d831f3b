package trial

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/internal/child"
	"github.com/berth-dev/berth/internal/scheduler"
)

// Scheduler is Berth's scheduler as a process of a trial. Its files have its name.
type Scheduler struct {
	Dir, Name   string
	LeaderElect bool
	Args        *scheduler.Args // nil for the plugin's defaults
}

// Access is the path of its kubeconfig, which the caller writes.
func (s Scheduler) Access() string { return filepath.Join(s.Dir, s.Name+".kubeconfig") }

// Flags writes its configuration, and returns its flags and the port of its own server.
func (s Scheduler) Flags() (port int, flags []string, err error) {
	text, err := scheduler.Configuration(scheduler.ConfigOptions{Kubeconfig: s.Access(), LeaderElect: s.LeaderElect, Args: s.Args})
	if err != nil {
		return 0, nil, err
	}
	file := filepath.Join(s.Dir, s.Name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return 0, nil, err
	}
	port, flags, err = s.Serving()
	return port, append(flags, "--config="+file), err
}

// Stock writes the configuration of the stock kube-scheduler, for pods with its schedulerName, and
// returns its flags. It uses no leader election and does not listen.
func (s Scheduler) Stock() (flags []string, err error) {
	text := fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q}
profiles: [{schedulerName: %s}]
`, s.Access(), s.Name)
	file := filepath.Join(s.Dir, s.Name+".yaml")
	return []string{"--config=" + file, "--secure-port=0"}, os.WriteFile(file, []byte(text), 0o600)
}

// Serving returns the flags of the scheduler's HTTP server. It listens on loopback, and its metrics
// and health need no authentication.
func (s Scheduler) Serving() (port int, flags []string, err error) {
	port, err = child.FreePort()
	return port, []string{
		"--bind-address=127.0.0.1", fmt.Sprint("--secure-port=", port), "--cert-dir=" + filepath.Join(s.Dir, s.Name),
		"--authorization-always-allow-paths=/metrics,/healthz,/readyz",
	}, err
}
