package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SMIMatrix is the output of "nvidia-smi topo -m": the connections of a machine's GPUs and network
// cards.
type SMIMatrix struct {
	// Names are the columns, such as "GPU0" and "NIC0" ("mlx5_0" in older releases).
	Names []string
	// Cells are the connections, by row and column in the order of Names: "X" for a device itself,
	// "NV18" for 18 NVLinks, and PIX, PXB, PHB, NODE or SYS (SOC in older releases) for paths over
	// PCIe.
	Cells [][]string
	// NICs are the RDMA names of the network cards by column name, from the legend.
	NICs map[string]string
}

// Limits of a matrix.
const (
	maxSMIText    = 256 << 10
	maxSMIDevices = 128
)

// SMIError describes a part of a matrix that cannot be read, or that contradicts the machine.
type SMIError struct {
	Where string // such as "row GPU0, column GPU1"
	Value string
	Want  string // the expected form
}

func (e *SMIError) Error() string {
	return fmt.Sprintf("nvidia-smi topo -m: %s: %.80q: want %s", e.Where, e.Value, e.Want)
}

// ParseSMI reads the output of "nvidia-smi topo -m". Connections must be the same in both
// directions. The error is an *SMIError.
func ParseSMI(text string) (*SMIMatrix, error) {
	if len(text) > maxSMIText {
		return nil, &SMIError{"text", strconv.Itoa(len(text)) + " bytes", fmt.Sprintf("at most %d bytes", maxSMIText)}
	}
	m := &SMIMatrix{NICs: map[string]string{}}
	for line := range strings.Lines(text) {
		fields := strings.Fields(withoutEscapes(line))
		var err error
		switch {
		case len(fields) == 0:
		case m.Names == nil:
			err = m.header(fields)
		case len(m.Cells) < len(m.Names):
			err = m.row(fields)
		default:
			err = m.legend(fields)
		}
		if err != nil {
			return nil, err
		}
	}
	if m.Names == nil {
		return nil, &SMIError{"header", "", "a line that names the devices: GPU0 GPU1 ..."}
	}
	if len(m.Cells) < len(m.Names) {
		return nil, &SMIError{"row " + m.Names[len(m.Cells)], "", "a row for each column"}
	}
	return m, m.check()
}

// withoutEscapes leaves out the sequences that underline the header on a terminal: ESC [ ... m.
func withoutEscapes(line string) string {
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		if !found {
			return line
		}
		_, rest, ended := strings.Cut(after, "m")
		if !ended {
			return before
		}
		line = before + rest
	}
}

// header reads the names of the devices' columns. The next column is "CPU Affinity". header ignores
// a line that is not the header.
func (m *SMIMatrix) header(fields []string) error {
	if !isNumbered(fields[0], "GPU") || len(fields) > 1 && !isColumn(fields[1]) && fields[1] != "CPU" {
		return nil
	}
	for _, name := range fields {
		if !isColumn(name) {
			break
		}
		if slices.Contains(m.Names, name) {
			return &SMIError{"header", name, "each device once"}
		}
		if m.Names = append(m.Names, name); len(m.Names) > maxSMIDevices {
			return &SMIError{"header", name, fmt.Sprintf("at most %d devices", maxSMIDevices)}
		}
	}
	return nil
}

// isColumn reports whether a word of the header is a device: a GPU, a NIC, or the RDMA name of one.
// It returns false for the columns after the devices: "CPU Affinity", "NUMA Affinity" and "GPU NUMA
// ID".
func isColumn(name string) bool {
	if isNumbered(name, "GPU") || isNumbered(name, "NIC") {
		return true
	}
	family, number, ok := strings.Cut(name, "_")
	return ok && family != "" && isNumbered(number, "")
}

func isNumbered(name, prefix string) bool {
	digits, ok := strings.CutPrefix(name, prefix)
	return ok && digits != "" && len(digits) <= 4 && strings.Trim(digits, "0123456789") == ""
}

func (m *SMIMatrix) row(fields []string) error {
	name := m.Names[len(m.Cells)]
	if fields[0] != name {
		return &SMIError{"row " + name, fields[0], "the rows in the order of the columns"}
	}
	if len(fields) <= len(m.Names) {
		return &SMIError{"row " + name, strings.Join(fields[1:], " "), fmt.Sprintf("%d connections, one for each column", len(m.Names))}
	}
	cells := fields[1 : len(m.Names)+1]
	for i, cell := range cells {
		if _, isLink := nvlinks(cell); !isLink && !slices.Contains([]string{"X", "PIX", "PXB", "PHB", "NODE", "SOC", "SYS"}, cell) {
			return &SMIError{"row " + name + ", column " + m.Names[i], cell, "X, NV and a number from 1 to 255, PIX, PXB, PHB, NODE or SYS"}
		}
	}
	m.Cells = append(m.Cells, slices.Clone(cells))
	return nil
}

// nvlinks returns the number of NVLinks in a cell such as "NV18".
func nvlinks(cell string) (n uint8, ok bool) {
	digits, ok := strings.CutPrefix(cell, "NV")
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 10, 8)
	return uint8(v), err == nil && v > 0 && isNumbered(digits, "")
}

// legend reads a line such as "NIC0: mlx5_0".
func (m *SMIMatrix) legend(fields []string) error {
	name, isNIC := strings.CutSuffix(fields[0], ":")
	if !isNIC || !isNumbered(name, "NIC") || len(fields) != 2 {
		return nil
	}
	if _, twice := m.NICs[name]; twice || !slices.Contains(m.Names, name) {
		return &SMIError{"NIC legend", name, "each NIC of the matrix once"}
	}
	m.NICs[name] = fields[1]
	return nil
}

func (m *SMIMatrix) check() error {
	for i := range m.Cells {
		for j, cell := range m.Cells[i] {
			where := fmt.Sprintf("row %s, column %s", m.Names[i], m.Names[j])
			if (cell == "X") != (i == j) {
				return &SMIError{where, cell, "X if row and column are the same device, and only then"}
			}
			if back := m.Cells[j][i]; back != cell {
				return &SMIError{where, cell, fmt.Sprintf("%q, as in row %s, column %s, because connections are the same in both directions", back, m.Names[j], m.Names[i])}
			}
		}
	}
	return nil
}

// Links returns the NVLinks between the GPUs of a machine. nvidia-smi numbers GPUs in the order of
// their PCI addresses. Links returns an *SMIError if the number of GPUs in the matrix is not the
// machine's number of NVIDIA GPUs.
func (s *SMIMatrix) Links(m *Machine) ([]Link, error) {
	var gpus []string
	for i := range m.Devices {
		if d := &m.Devices[i]; d.Vendor == "10de" && d.Kind() == GPU && d.Physical == "" {
			gpus = append(gpus, d.Address)
		}
	}
	var columns []int // by GPU
	for i, name := range s.Names {
		if isNumbered(name, "GPU") {
			if name != "GPU"+strconv.Itoa(len(columns)) {
				return nil, &SMIError{"header", name, "GPUs that count from 0"}
			}
			columns = append(columns, i)
		}
	}
	if len(columns) != len(gpus) {
		return nil, &SMIError{"header", fmt.Sprintf("%d GPUs", len(columns)), fmt.Sprintf("%d, the number of NVIDIA GPUs of the machine", len(gpus))}
	}
	var out []Link
	for a := range gpus {
		for b := a + 1; b < len(gpus); b++ {
			if n, linked := nvlinks(s.Cells[columns[a]][columns[b]]); linked {
				out = append(out, Link{A: gpus[a], B: gpus[b], Kind: NVLink, Count: n})
			}
		}
	}
	return out, nil
}
