// Package pasted detects the form of a pasted text: the output of a tool that shows a machine, or a
// kubelet's configuration.
package pasted

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// Form names a form of text in messages: "what lscpu -p prints".
type Form string

// The forms. Unknown is any other text.
const (
	Unknown           Form = ""
	Lscpu             Form = "what lscpu prints"
	LscpuJSON         Form = "what lscpu -J prints"
	LscpuExtended     Form = "what lscpu -e prints"
	LscpuExtendedJSON Form = "what lscpu -Je prints"
	LscpuParsable     Form = "what lscpu -p prints"
	Numactl           Form = "what numactl -H prints"
	NvidiaTopology    Form = "what nvidia-smi topo -m prints"
	KubeletConfig     Form = "a KubeletConfiguration"
	KubeletAnswer     Form = "what a kubelet answers to /configz"
	KubeletFlags      Form = "flags of a kubelet"
	KubernetesObject  Form = "an object of Kubernetes"
	longestFirst           = 64 << 10 // how much of a text is looked at
)

var lines = []struct {
	form Form
	line *regexp.Regexp
}{
	{Numactl, regexp.MustCompile(`(?m)^(available: [0-9]+ nodes?\b|node [0-9]+ cpus:)`)},
	{NvidiaTopology, regexp.MustCompile(`(?m)^\s*(\x1b\[[0-9]+m)?\s*GPU0(\s.*)?\s(CPU Affinity|GPU1|NIC0|mlx[0-9]|X)`)},
	{LscpuParsable, regexp.MustCompile(`(?mi)^# ?(CPU|CORE|SOCKET|NODE)(,|$)`)},
	{LscpuExtended, regexp.MustCompile(`^\s*CPU[ \t]+[A-Z]`)},
	{KubeletAnswer, regexp.MustCompile(`(?m)^kubeletconfig:`)},
	{KubeletConfig, regexp.MustCompile(`(?m)^kind: *["']?KubeletConfiguration\b`)},
	{KubernetesObject, regexp.MustCompile(`(?m)^kind: *["']?[A-Z]`)},
	{Lscpu, regexp.MustCompile(`(?m)^\s*CPU\(s\):`)},
	{KubeletFlags, regexp.MustCompile(`(^|[\s"'=])--[a-z][a-z0-9-]*(=|\s|["']|$)`)},
}

// keys are keys of JSON objects.
var keys = []struct {
	key  string
	form Form
}{{"lscpu", LscpuJSON}, {"cpus", LscpuExtendedJSON}, {"kubeletconfig", KubeletAnswer}}

var firstKey = regexp.MustCompile(`^\s*\{\s*"([^"]*)"`)

// Text is the text without the byte order mark that some editors write first.
func Text(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// What detects the form of a text from its beginning.
func What(text []byte) Form {
	text = Text(text)
	if object := map[string]json.RawMessage{}; strings.HasPrefix(strings.TrimSpace(string(text[:min(len(text), 256)])), "{") {
		_ = json.Unmarshal(text, &object)
		first := firstKey.FindSubmatch(text) // of one that is broken too
		for _, k := range keys {
			if _, ok := object[k.key]; ok || first != nil && string(first[1]) == k.key {
				return k.form
			}
		}
		var kind string
		switch _ = json.Unmarshal(object["kind"], &kind); kind {
		case "":
			return Unknown
		case "KubeletConfiguration":
			return KubeletConfig
		}
		return KubernetesObject
	}
	first := text[:min(len(text), longestFirst)]
	for _, l := range lines {
		if l.line.Match(first) {
			return l.form
		}
	}
	return Unknown
}

// IsMachine reports whether the form shows a machine.
func (f Form) IsMachine() bool {
	switch f {
	case Lscpu, LscpuJSON, LscpuExtended, LscpuExtendedJSON, LscpuParsable, Numactl, NvidiaTopology:
		return true
	}
	return false
}
