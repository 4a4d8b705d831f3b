package claims

// Mode is what a pod asks about its claims.
type Mode uint8

// The modes.
const (
	// Free: devices may be anywhere. It is what a pod asks that says nothing.
	Free Mode = iota
	// Near: devices on the NUMA nodes of the CPUs are chosen if there are some.
	Near
	// Required: a node is refused if a device is on another NUMA node than the CPUs.
	Required
)

var modes = [...]string{Free: "", Near: "near", Required: "required"}

// String returns the mode as people write it; Free is "".
func (m Mode) String() string { return modes[m] }

// ModesWanted describes what ParseMode takes.
const ModesWanted = "near or required"

// ParseMode reads a mode as people write it. It reports false for any other text, and for "".
func ParseMode(text string) (Mode, bool) {
	for m := Near; int(m) < len(modes); m++ {
		if modes[m] == text {
			return m, true
		}
	}
	return Free, false
}
