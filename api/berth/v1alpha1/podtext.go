package v1alpha1

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// A PodAllocation is written as one line of text, because the API server's cost for an object grows
// with its number of values, and a full node has hundreds of pods (docs/performance.md, "Writes").
//
//	UID [pod=NAMESPACE/NAME] [state=STATE] [gen=GENERATION] [WHOLE] CONTAINER...
//
// A single space separates the words. A CONTAINER is NAME[:KIND] and its parts, each after a
// semicolon. WHOLE is the pod-level allocation, in the form of a CONTAINER with the name "*". The
// parts are:
//
//	cpus=LIST            exclusive CPUs, a kernel CPU list
//	exclusive=LEVEL      core or numa
//	shares=NUMA:M,...    CPU time on NUMA nodes, in thousandths of a CPU
//	mem=BLOCK            a MemoryBlock, any number of them
//	dev=RESOURCE=ID,ID   devices, any number of resources
//
// Names are percent-encoded, so that no name contains a space, a semicolon or another of these
// separators.

// String returns p as one line of text. If p was read from text that cannot be parsed, String
// returns that text.
func (p *PodAllocation) String() string {
	if p.Malformed != "" {
		return p.Malformed
	}
	words := []string{encode(p.UID)}
	if p.Pod != "" {
		words = append(words, "pod="+encode(p.Pod))
	}
	if p.State != "" {
		words = append(words, "state="+encode(string(p.State)))
	}
	if p.Generation > 0 {
		words = append(words, "gen="+strconv.FormatUint(p.Generation, 10))
	}
	if p.Whole != nil {
		words = append(words, p.Whole.text(wholeName))
	}
	for i := range p.Containers {
		words = append(words, p.Containers[i].text(encode(p.Containers[i].Name)))
	}
	return strings.Join(words, " ")
}

// wholeName is the name in the word for the whole pod. No container's name is encoded as "*".
const wholeName = "*"

func (c *ContainerAllocation) text(name string) string {
	var b strings.Builder
	b.WriteString(name)
	if c.Kind != "" {
		b.WriteString(":" + encode(string(c.Kind)))
	}
	if c.CPUs != "" {
		b.WriteString(";cpus=" + encode(string(c.CPUs), ','))
	}
	if c.Exclusive != "" {
		b.WriteString(";exclusive=" + encode(string(c.Exclusive)))
	}
	for i, s := range c.Shares {
		sign := ","
		if i == 0 {
			sign = ";shares="
		}
		fmt.Fprintf(&b, "%s%d:%d", sign, s.NUMA, s.MilliCPU)
	}
	for _, m := range c.Memory {
		b.WriteString(";mem=" + encode(string(m), ',', '='))
	}
	for _, d := range c.Devices {
		b.WriteString(";dev=" + encode(string(d.Resource), ':') + "=")
		for i, id := range d.IDs {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(encode(string(id), ':'))
		}
	}
	return b.String()
}

// encode percent-encodes all characters of text except letters, digits, the characters "-._/@+",
// and those in keep.
func encode(text string, keep ...byte) string {
	plain := func(c byte) bool {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			return true
		}
		return strings.IndexByte("-._/@+", c) >= 0 || strings.IndexByte(string(keep), c) >= 0
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ParsePodAllocation parses a line. The error names the wrong word and the expected form.
func ParsePodAllocation(text string) (PodAllocation, error) {
	var p PodAllocation
	words := strings.Split(text, " ")
	var err error
	if p.UID, err = url.PathUnescape(words[0]); err != nil || p.UID == "" {
		return PodAllocation{}, wrong(words[0], "the UID of a pod first")
	}
	for i, word := range words[1:] {
		pod, isPod := strings.CutPrefix(word, "pod=")
		state, isState := strings.CutPrefix(word, "state=")
		generation, isGeneration := strings.CutPrefix(word, "gen=")
		switch {
		case isPod && i == 0:
			p.Pod, err = url.PathUnescape(pod)
		case isState && p.State == "" && len(p.Containers) == 0:
			state, err = url.PathUnescape(state)
			p.State = PodState(state)
		case isGeneration && p.Generation == 0 && len(p.Containers) == 0:
			p.Generation, err = strconv.ParseUint(generation, 10, 64)
		default:
			err = p.parseContainerWord(word)
		}
		if err != nil || (isPod && p.Pod == "") || (isState && p.State == "") || isGeneration && "gen="+strconv.FormatUint(p.Generation, 10) != word || isGeneration && p.Generation == 0 {
			return PodAllocation{}, wrong(word, "pod=NAMESPACE/NAME, state=STATE, gen=GENERATION, or NAME[:KIND];cpus=LIST;mem=BLOCK;dev=RESOURCE=ID,...")
		}
	}
	return p, nil
}

// parseContainerWord parses the word of a container or of the whole pod. A line has at most one
// word for the whole pod. This word comes before the containers.
func (p *PodAllocation) parseContainerWord(word string) error {
	c, err := parseContainer(word)
	switch {
	case !strings.HasPrefix(word, wholeName) || c.Name != wholeName:
		p.Containers = append(p.Containers, c)
	case p.Whole != nil || len(p.Containers) > 0:
		return wrong(word, wholeName+" once, before the containers")
	default:
		c.Name = ""
		p.Whole = &c
	}
	return err
}

// wrong returns the error for a word that does not have the form want.
func wrong(word, want string) error {
	const limit = 100
	if len(word) > limit {
		word = word[:limit] + "..."
	}
	return fmt.Errorf("%q: want %s", word, want)
}

func parseContainer(word string) (ContainerAllocation, error) {
	var c ContainerAllocation
	head, rest, _ := strings.Cut(word, ";")
	name, kind, hasKind := strings.Cut(head, ":")
	var err error
	if c.Name, err = url.PathUnescape(name); err != nil || c.Name == "" || strings.Contains(name, "=") || hasKind && kind == "" {
		return c, wrong(head, "NAME or NAME:KIND")
	}
	if kind, err = url.PathUnescape(kind); err != nil {
		return c, err
	}
	c.Kind = ContainerKind(kind)
	if rest == "" {
		return c, nil
	}
	for _, part := range strings.Split(rest, ";") {
		if err := c.parsePart(part); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *ContainerAllocation) parsePart(part string) error {
	key, value, _ := strings.Cut(part, "=")
	if key == "dev" {
		d, err := parseDevices(value)
		c.Devices = append(c.Devices, d)
		return err
	}
	text, err := url.PathUnescape(value)
	switch {
	case err != nil:
	case part == "started": // Berth 0.1.0 marked init containers that had been started
		return nil
	case key == "cpus" && c.CPUs == "" && text != "":
		c.CPUs = CPUList(text)
		return nil
	case key == "exclusive" && c.Exclusive == "" && text != "":
		c.Exclusive = Exclusive(text)
		return nil
	case key == "shares" && c.Shares == nil:
		c.Shares, err = parseShares(text)
		return err
	case key == "mem" && text != "":
		c.Memory = append(c.Memory, MemoryBlock(text))
		return nil
	}
	return wrong(part, "cpus=LIST, exclusive=LEVEL, shares=NUMA:M,..., mem=BLOCK or dev=RESOURCE=ID,...")
}

func parseShares(text string) (out []CPUShare, err error) {
	for part := range strings.SplitSeq(text, ",") {
		numa, milli, _ := strings.Cut(part, ":")
		var s CPUShare
		n, err := strconv.ParseUint(numa, 10, 8)
		if err == nil {
			s.MilliCPU, err = strconv.ParseInt(milli, 10, 64)
		}
		if s.NUMA = NUMAID(n); err != nil || fmt.Sprintf("%d:%d", s.NUMA, s.MilliCPU) != part {
			return nil, wrong(part, "NUMA:THOUSANDTHS, as in 0:1500")
		}
		out = append(out, s)
	}
	return out, nil
}

func parseDevices(text string) (d DeviceAllocation, err error) {
	resource, ids, _ := strings.Cut(text, "=")
	if resource, err = url.PathUnescape(resource); err != nil || resource == "" {
		return d, wrong(text, "RESOURCE=ID,ID")
	}
	d.Resource = ResourceName(resource)
	for _, id := range strings.Split(ids, ",") {
		if id, err = url.PathUnescape(id); err != nil || id == "" {
			return d, wrong(text, "RESOURCE=ID,ID")
		}
		d.IDs = append(d.IDs, DeviceID(id))
	}
	return d, nil
}

// MarshalJSON implements json.Marshaler.
func (p PodAllocation) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON implements json.Unmarshaler. If UnmarshalJSON cannot parse the text, it puts the
// text into Malformed and returns nil, so that one such line does not make a whole list of reports
// unreadable.
func (p *PodAllocation) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if err != nil {
		text = string(data)
	} else if *p, err = ParsePodAllocation(text); err == nil {
		return nil
	}
	if text == "" {
		text = `""`
	}
	*p = PodAllocation{Malformed: text}
	return nil
}
