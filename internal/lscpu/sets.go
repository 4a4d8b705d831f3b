package lscpu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/topology"
)

// inOne has the CPUs of one socket, core, cache or NUMA node. Cores are numbered per socket.
type inOne struct {
	socket, id int
	cpus       topology.CPUSet
}

// sets has the CPUs of a machine by socket, core, cache and NUMA node.
type sets struct {
	online, offline                topology.CPUSet
	packages, nodes, caches, cores []inOne
}

// machine builds a machine string from the sets and parses it. The argument from is the beginning
// of the text of an error.
func (s *sets) machine(from string) (*topology.Machine, error) {
	text := "cpu:" + s.online.String()
	add := func(key, separator string, entries []string) {
		if len(entries) > 0 {
			text += " " + key + ":" + strings.Join(entries, separator)
		}
	}
	byID := func(all []inOne) (entries, empty []string) {
		for i := range all {
			if all[i].cpus.IsEmpty() {
				empty = append(empty, strconv.Itoa(all[i].id))
			} else {
				entries = append(entries, fmt.Sprintf("%d=%s", all[i].id, all[i].cpus))
			}
		}
		return entries, empty
	}
	packages, _ := byID(s.packages)
	nodes, memoryOnly := byID(s.nodes)
	caches, _ := byID(s.caches)
	var cores []string
	for i := range s.cores {
		var cpus []string
		for cpu := range s.cores[i].cpus.All() {
			cpus = append(cpus, fmt.Sprint(cpu))
		}
		cores = append(cores, fmt.Sprintf("%d/%d=%s", s.cores[i].socket, s.cores[i].id, strings.Join(cpus, "+")))
	}
	add("package", ";", packages)
	add("numa", ";", nodes)
	add("memonly", ",", memoryOnly)
	add("l3", ";", caches)
	add("core", ";", cores)
	m, err := topology.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s describes a machine that cannot exist: %w", from, err)
	}
	if !s.offline.IsEmpty() {
		m.Offline = s.offline
	}
	return m, m.Check()
}
