package jobs

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// plugins are the job plugins of a Job with their arguments. They have the names, flags and effects
// on pods of Volcano's plugins (pkg/controllers/job/plugins).
type plugins struct {
	env        bool
	svc        *svcPlugin
	ssh        *sshPlugin
	frameworks []framework
	ray        *rayPlugin // also in frameworks
	// svcAsked means that the Job itself names svc.
	svcAsked bool
}

// served are the names of the job plugins that Berth has.
var served = []string{"env", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"}

// pluginsOf reads the plugins of a Job. The frameworks' plugins need svc, and mpi needs ssh.
// pluginsOf adds these, as Volcano's webhook does. An error names the plugin, its arguments and the
// expected form. Even with errors, pluginsOf returns the valid parts.
func pluginsOf(job *batch.Job) (p plugins, wrong field.ErrorList) {
	asked := maps.Clone(job.Spec.Plugins)
	_, p.svcAsked = asked["svc"]
	for name := range frameworks {
		if _, ok := asked[name]; ok {
			imply(asked, "svc")
		}
	}
	if _, ok := asked["mpi"]; ok {
		imply(asked, "ssh")
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		check := p.add(name, flags)
		at := field.NewPath("spec", "plugins").Key(name)
		if check == nil {
			wrong = append(wrong, notServed(at, "Berth has "+strings.Join(served, ", ")))
			continue
		}
		err := flags.Parse(asked[name])
		if err == nil && flags.NArg() > 0 {
			err = fmt.Errorf("%q is not a flag", flags.Arg(0))
		}
		if err == nil {
			err = check(job)
		}
		if err != nil {
			wrong = append(wrong, field.Invalid(at, strings.Join(asked[name], " "), err.Error()+": want "+usage(flags)))
		}
	}
	return p, wrong
}

// imply adds a plugin without arguments, unless the Job names the plugin.
func imply(asked map[string][]string, name string) {
	if _, ok := asked[name]; !ok {
		asked[name] = nil
	}
}

func usage(flags *flag.FlagSet) string {
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name+"="+f.DefValue) })
	if len(names) == 0 {
		return "no argument"
	}
	return "flags of " + strings.Join(names, ", ")
}

// add creates the plugin and its flags. After the arguments have been read, check returns an error
// if they are wrong. check is nil for a plugin that Berth does not have.
func (p *plugins) add(name string, flags *flag.FlagSet) (check func(*batch.Job) error) {
	switch name {
	case "env":
		p.env = true
		return func(*batch.Job) error { return nil }
	case "svc":
		p.svc = newSvc(flags)
		return func(*batch.Job) error { return nil }
	case "ssh":
		p.ssh = newSSH(flags)
		return p.ssh.check
	}
	make, known := frameworks[name]
	if !known {
		return nil
	}
	f := make(flags)
	p.frameworks = append(p.frameworks, f)
	if ray, is := f.(*rayPlugin); is {
		p.ray = ray
	}
	return f.check
}

// svcPlugin lets the pods of a Job find each other by name.
type svcPlugin struct{ publishNotReady, noNetworkPolicy, injectHosts bool }

func newSvc(flags *flag.FlagSet) *svcPlugin {
	p := &svcPlugin{}
	flags.BoolVar(&p.publishNotReady, "publish-not-ready-addresses", false, "")
	flags.BoolVar(&p.noNetworkPolicy, "disable-network-policy", false, "")
	flags.BoolVar(&p.injectHosts, "inject-hosts-env", true, "")
	return p
}

func checkPort(name string, port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("--%s=%d: want a port from 1 to 65535", name, port)
	}
	return nil
}

// checkTask returns an error if a Job lacks a task that a plugin's argument names.
func checkTask(job *batch.Job, flagName, task string) error {
	s := specOf(job)
	if s.task(task) == nil {
		return fmt.Errorf("--%s=%s: want the name of a task of the Job", flagName, task)
	}
	return nil
}

func notServed(at *field.Path, instead string) *field.Error {
	return field.Forbidden(at, "Berth does not support it: "+instead)
}
