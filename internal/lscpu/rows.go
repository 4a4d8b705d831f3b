package lscpu

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/topology"
)

// row is the row of one CPU in the output of lscpu -e, -p or -Je.
type row struct {
	where string // "line 7", "cpus[6]"
	cpu   int
	// ids are the ids by column. Empty cells are left out.
	ids    map[string]int
	online bool
	stated bool // the output has the column ONLINE
}

const (
	columnCPU    = "CPU"
	columnCore   = "CORE"
	columnSocket = "SOCKET"
	columnNode   = "NODE"
	columnL2     = "L2"
	columnL3     = "L3"
	columnOnline = "ONLINE"
)

func rowError(form pasted.Form, where, column, value, want string) error {
	text := fmt.Sprintf("in %s", form)
	for _, part := range []string{where, column} {
		if part != "" {
			text += ": " + part
		}
	}
	if value != "" {
		text += fmt.Sprintf(": %.80q", value)
	}
	return fmt.Errorf("%s: want %s", text, want)
}

type rowReader struct {
	form pasted.Form
	rows []row
}

func (r *rowReader) add(where string, cells map[string]string) error {
	one := row{where: where, ids: map[string]int{}, online: true}
	for _, column := range []string{columnCPU, columnCore, columnSocket, columnNode, columnL2, columnL3} {
		text := strings.TrimSpace(cells[column])
		if text == "" || text == "-" {
			continue
		}
		id, err := strconv.Atoi(text)
		if err != nil || id < 0 || id > maxNUMAID {
			return rowError(r.form, where, column, text, fmt.Sprintf("a number from 0 to %d", maxNUMAID))
		}
		one.ids[column] = id
	}
	cpu, ok := one.ids[columnCPU]
	if !ok || cpu >= topology.MaxCPUs {
		return rowError(r.form, where, columnCPU, cells[columnCPU], fmt.Sprintf("a number from 0 to %d", topology.MaxCPUs-1))
	}
	one.cpu = cpu
	_, one.stated = cells[columnOnline]
	switch strings.ToLower(strings.TrimSpace(cells[columnOnline])) {
	case "", "yes", "y", "true":
	case "no", "n", "false", "-":
		one.online = false
	default:
		return rowError(r.form, where, columnOnline, cells[columnOnline], "yes or no, as LC_ALL=C lscpu prints")
	}
	if slices.ContainsFunc(r.rows, func(o row) bool { return o.cpu == cpu }) {
		return rowError(r.form, where, columnCPU, cells[columnCPU], "each CPU once")
	}
	r.rows = append(r.rows, one)
	return nil
}

// readExtended reads the output of lscpu -e: a heading, and a row for each CPU.
func readExtended(text string) (*topology.Machine, error) {
	r := rowReader{form: pasted.LscpuExtended}
	var heading []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		cells := strings.Fields(line)
		switch where := fmt.Sprint("line ", n); {
		case len(cells) == 0:
		case heading == nil:
			heading = cells
		case len(cells) != len(heading):
			return nil, rowError(r.form, where, "", strings.TrimSpace(line), fmt.Sprintf("%d values, one for each column of the header", len(heading)))
		default:
			if err := r.add(where, byColumn(heading, cells)); err != nil {
				return nil, err
			}
		}
	}
	return r.machine()
}

// readParsable reads the output of lscpu -p: comments, the last of which names the columns, and a
// row for each CPU.
func readParsable(text string) (*topology.Machine, error) {
	r := rowReader{form: pasted.LscpuParsable}
	var heading []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if comment, ok := strings.CutPrefix(line, "#"); ok && r.rows == nil {
			heading = strings.Split(strings.TrimSpace(comment), ",")
			continue
		}
		if line == "" {
			continue
		}
		cells := strings.Split(line, ",")
		if len(cells) != len(heading) {
			return nil, rowError(r.form, fmt.Sprint("line ", n), "", line, fmt.Sprintf("%d values, one for each column of the header", len(heading)))
		}
		if err := r.add(fmt.Sprint("line ", n), byColumn(heading, cells)); err != nil {
			return nil, err
		}
	}
	return r.machine()
}

// bareDash matches a dash without quotes, which older releases print instead of an id that an
// offline CPU does not have.
var bareDash = regexp.MustCompile(`("\s*:\s*)-(\s*[,}])`)

// readExtendedJSON reads the output of lscpu -Je. Values are numbers or texts, depending on the
// release.
func readExtendedJSON(text string) (*topology.Machine, error) {
	r := rowReader{form: pasted.LscpuExtendedJSON}
	var all struct {
		CPUs []map[string]any `json:"cpus"`
	}
	text = bareDash.ReplaceAllString(text, "${1}null${2}")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("in %s: %s: %w", r.form, whereInJSON(text, err), err)
	}
	for i, object := range all.CPUs {
		cells := map[string]string{}
		for name, value := range object {
			if value == nil {
				value = "-"
			}
			maps.Copy(cells, byColumn([]string{name}, []string{fmt.Sprint(value)}))
		}
		if err := r.add(fmt.Sprintf("cpus[%d]", i), cells); err != nil {
			return nil, err
		}
	}
	return r.machine()
}

// byColumn returns the cells by their columns. A heading like L1d:L1i:L2:L3 names several columns.
func byColumn(heading, cells []string) map[string]string {
	out := map[string]string{}
	for i, name := range heading {
		names, values := strings.Split(name, ":"), strings.Split(cells[i], ":")
		for k, one := range names {
			if len(values) == len(names) {
				out[strings.ToUpper(strings.TrimSpace(one))] = values[k]
			}
		}
	}
	return out
}

// group groups the CPUs by a column. Core ids may be unique only within a socket. Other ids are
// unique within the machine.
func (r *rowReader) group(column string) (out []inOne) {
	at := map[[2]int]int{}
	for i := range r.rows {
		id, ok := r.rows[i].ids[column]
		if !ok || !r.rows[i].online {
			continue
		}
		key := [2]int{-1, id}
		if column == columnCore {
			key[0] = r.rows[i].ids[columnSocket]
		}
		k, known := at[key]
		if !known {
			k = len(out)
			at[key], out = k, append(out, inOne{socket: key[0], id: id})
		}
		out[k].cpus.Add(topology.CPUID(r.rows[i].cpu))
	}
	slices.SortFunc(out, func(a, b inOne) int {
		if a.socket != b.socket {
			return a.socket - b.socket
		}
		return a.id - b.id
	})
	return out
}

// checkCores returns an error if CPUs of one core do not share the NUMA node and the L2 cache. With
// several kinds of cores, some releases of lscpu number the cores of each kind from 0. With -y,
// which prints the ids of sysfs, cores of several clusters or dies of a socket may have equal ids.
func (r *rowReader) checkCores() error {
	first := map[[2]int]*row{}
	for i := range r.rows {
		one := &r.rows[i]
		if !one.online {
			continue
		}
		core := [2]int{one.ids[columnSocket], one.ids[columnCore]}
		other := first[core]
		if other == nil {
			first[core] = one
			continue
		}
		for _, column := range []string{columnNode, columnL2} {
			id, ok := one.ids[column]
			if was, had := other.ids[column]; ok && had && id != was {
				return rowError(r.form, one.where, columnCore, strconv.Itoa(core[1]), fmt.Sprintf("ids that are unique in the socket, but CPUs %d and %d of this core have different values of %s: try lscpu -p with -y, or without it, or give a capture (berth topology --help)", other.cpu, one.cpu, column))
			}
		}
	}
	return nil
}

func (r *rowReader) machine() (*topology.Machine, error) {
	var online, offline topology.CPUSet
	slices.SortFunc(r.rows, func(a, b row) int { return a.cpu - b.cpu })
	inCore := func(one row) bool { _, ok := one.ids[columnCore]; return ok }
	if slices.ContainsFunc(r.rows, inCore) { // lscpu -a -p prints no core of an offline CPU
		for i := range r.rows {
			r.rows[i].online = r.rows[i].online && (r.rows[i].stated || inCore(r.rows[i]))
		}
	}
	for i := range r.rows {
		one := &r.rows[i]
		if !one.online {
			offline.Add(topology.CPUID(one.cpu))
			continue
		}
		online.Add(topology.CPUID(one.cpu))
		for _, column := range []string{columnCore, columnSocket} {
			if _, ok := one.ids[column]; !ok {
				return nil, rowError(r.form, one.where, column, "", "a number: lscpu -p=CPU,Core,Socket,Node,L3 (without -y) prints all columns that Berth reads")
			}
		}
	}
	if err := r.checkCores(); err != nil {
		return nil, err
	}
	if online.IsEmpty() {
		return nil, rowError(r.form, "", "", "", "a row for each CPU, and at least one CPU that is online")
	}
	nodes := r.group(columnNode)
	var inNodes topology.CPUSet
	for i := range nodes {
		inNodes = inNodes.Or(&nodes[i].cpus)
	}
	switch {
	case len(nodes) == 0: // a kernel without NUMA: one node
		nodes = []inOne{{cpus: online}}
	case inNodes != online:
		return nil, rowError(r.form, "", columnNode, inNodes.String(), "a NUMA node for each CPU that is online: "+online.String())
	}
	all := sets{online: online, offline: offline, packages: r.group(columnSocket), nodes: nodes, caches: r.group(columnL3), cores: r.group(columnCore)}
	return all.machine(string(r.form))
}
