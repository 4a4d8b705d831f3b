package claims

// Mode is the alignment that a pod requests for its claims.
type Mode uint8

// The modes.
const (
	// Free, the default, means that devices may be on any NUMA nodes.
	Free Mode = iota
	// Near means that the pod gets devices on the NUMA nodes of its CPUs if possible, and otherwise
	// any devices.
	Near
	// Required means that the pod gets a node only if each of its devices there is on a NUMA node
	// of its CPUs, or has no NUMA node.
	Required
)

var modes = [...]string{Free: "", Near: "near", Required: "required"}

// String returns the mode as users write it. Free is "".
func (m Mode) String() string { return modes[m] }

// ModesWanted names the texts that ParseMode accepts.
const ModesWanted = "near or required"

// ParseMode parses a mode as users write it. It returns false for any other text, and for "".
func ParseMode(text string) (Mode, bool) {
	for m := Near; int(m) < len(modes); m++ {
		if modes[m] == text {
			return m, true
		}
	}
	return Free, false
}
