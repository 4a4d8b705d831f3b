// Package pasted detects the form of a pasted text. The text may be the output of a tool that shows
// a machine, or a kubelet's configuration. The package also finds characters that do not belong in
// such a text.
package pasted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Form names a form of text in messages, such as "the output of lscpu -p".
type Form string

// The forms. Unknown is any other text.
const (
	Unknown           Form = ""
	Lscpu             Form = "the output of lscpu"
	LscpuJSON         Form = "the output of lscpu -J"
	LscpuExtended     Form = "the output of lscpu -e"
	LscpuExtendedJSON Form = "the output of lscpu -Je"
	LscpuParsable     Form = "the output of lscpu -p"
	LscpuCaches       Form = "the output of lscpu -C"
	Numactl           Form = "the output of numactl -H"
	NvidiaTopology    Form = "the output of nvidia-smi topo -m"
	NumactlShow       Form = "the output of numactl -s"
	NvidiaSMI         Form = "the output of nvidia-smi"
	Lstopo            Form = "the output of lstopo"
	CPUInfo           Form = "/proc/cpuinfo"
	KubeletConfig     Form = "a KubeletConfiguration"
	KubeletAnswer     Form = "a kubelet's answer to /configz"
	KubeletFlags      Form = "a list of kubelet flags"
	KubeletLog        Form = "a kubelet's log"
	EffectiveConfig   Form = "a kubelet's log with its effective configuration"
	Description       Form = "the output of kubectl describe"
	KubernetesObject  Form = "a Kubernetes object"
	Table             Form = "a table of kubectl"
	UTF16             Form = "text in UTF-16"
	longestFirst           = 64 << 10 // bytes at the beginning of a text that What looks at
)

type sign struct {
	form Form
	line *regexp.Regexp
}

var lines = []sign{
	{Numactl, regexp.MustCompile(`(?m)^(available: [0-9]+ nodes?\b|node [0-9]+ cpus:)`)},
	{NvidiaTopology, regexp.MustCompile(`(?m)^\s*(\x1b\[[0-9]+m)?\s*GPU0(\s.*)?\s(CPU Affinity|GPU1|NIC0|mlx[0-9]|X)`)},
	{NumactlShow, regexp.MustCompile(`(?m)^physcpubind:`)},
	{NvidiaSMI, regexp.MustCompile(`(?m)^(GPU [0-9]+: |\| NVIDIA-SMI )`)},
	{LscpuParsable, regexp.MustCompile(`(?mi)^# ?(CPU|CORE|SOCKET|NODE)(,|$)`)},
	{LscpuExtended, regexp.MustCompile(`^\s*CPU[ \t]+[A-Z]`)},
	{CPUInfo, regexp.MustCompile(`(?m)^processor[ \t]*:[ \t]*[0-9]+\r?$`)},
	{Lstopo, regexp.MustCompile(`(?m)^\s*(<topology\b|<!DOCTYPE topology\b|Machine (L#0 )?\(|(NUMANode|Package) [LP]#[0-9]|depth 0:\s+1 Machine\b|([A-Z][A-Za-z0-9]*:[0-9]+(\([^)]*\))? (\[[^\]]*\] )?)+PU:[0-9]+)`)},
	{EffectiveConfig, regexp.MustCompile(`\.go:[0-9]+\] "Effective KubeletConfiguration"`)},
	{KubeletAnswer, regexp.MustCompile(`(?m)^kubeletconfig:`)},
	{KubeletConfig, regexp.MustCompile(`(?m)^kind: *["']?KubeletConfiguration\b`)},
	{KubernetesObject, regexp.MustCompile(`(?m)^(kind: *["']?[A-Z]|metadata:)`)},
	{Lscpu, regexp.MustCompile(`(?m)^\s*CPU\(s\):`)},
	{Lscpu, regexp.MustCompile(`^\s*(#[# \t]*CPU[ \t]+(NODE|SOCKET|CORE)\b|[0-9]+(,[0-9:-]*){2,}\r?\n[0-9]+,)`)}, // without its header
	{KubeletLog, regexp.MustCompile(`(?m)\b[a-z_]+\.go:[0-9]+\] `)},
	{Description, regexp.MustCompile(`^\s*Name: .*\n(.*\n){0,9}?(Namespace|Priority|Labels|Roles): `)},
	{LscpuCaches, regexp.MustCompile(`^\s*NAME +ONE-SIZE `)},
	{Table, regexp.MustCompile(`^\s*(NAME|NAMESPACE|LAST SEEN) +[A-Z]`)},
	{KubeletFlags, regexp.MustCompile(`(^|[\s"'=\x00])--[a-z][a-z0-9-]*(=|\s|["'\x00]|$)`)},
}

// userData is the sign of a machine's user data (cloud-init), which may contain texts of other
// forms.
var userData = sign{"user data of a machine", regexp.MustCompile(`^\s*(MIME-Version:|Content-Type: *multipart/|#cloud-config\b)`)}

// inside are signs of products that a field of any Kubernetes object may contain. If a text is a
// Kubernetes object, these signs do not show its form.
var inside = []sign{
	userData,
	{"user data of a machine", regexp.MustCompile(`(?m)^[^#\n]*(\bbootstrap\.sh\s|--kubelet-extra-args\b)`)},
	{"a configuration of k3s or RKE2", regexp.MustCompile(`--kubelet-arg\b`)},
	{"a command of minikube", regexp.MustCompile(`--extra-config[= ]["']?kubelet\.`)},
	{"a setting of Charmed Kubernetes", regexp.MustCompile(`\bkubelet-extra-(args|config)["']?[:=]`)},
	{"a settings file of Bottlerocket", regexp.MustCompile(`(?m)^\s*\[settings[.\]]`)},
	{"a configuration of Terraform", regexp.MustCompile(`(?m)^\s*((resource|module|data) "[^"]*"|kubelet_config *=?) *["{]`)},
}

// products are the signs of texts from which a product makes a kubelet's configuration. In a text
// with several parts the first line decides, so the sign of user data comes first.
var products = []sign{
	userData,
	{"a NodeConfig of EKS", ofGroup(`node\.eks\.aws`)},
	{"a file of eksctl", ofGroup(`eksctl\.io`)},
	{"an object of Karpenter", ofGroup(`karpenter\.[a-z0-9.-]+`)},
	{"a kubelet configuration of AKS", regexp.MustCompile(`(?m)^(cpuCfsQuota(Period)?|imageGc(High|Low)Threshold|containerLogMaxSizeM[Bb]|vmSize|agentPoolProfiles):`)},
	{"a system configuration of GKE", regexp.MustCompile(`(?m)^(kubeletConfig|linuxConfig):`)},
	{"a KubeletConfig of OpenShift", regexp.MustCompile(`(?m)^kind: *["']?KubeletConfig\b`)},
	{"a PerformanceProfile of OpenShift", ofGroup(`performance\.openshift\.io`)},
	{"a MachineConfig of OpenShift", ofGroup(`machineconfiguration\.openshift\.io`)},
	{"an object of Rancher", ofGroup(`[a-z-]+\.cattle\.io`)},
	{"a configuration of k3s or RKE2", regexp.MustCompile(`(?m)^["']?(kubelet-arg|write-kubeconfig-mode)\+?["']?:`)},
	{"a cluster.yml of RKE", regexp.MustCompile(`(?m)^services:\s*\n([ \t].*\n)*?[ \t]+kubelet:`)},
	{"a machine configuration of Talos", regexp.MustCompile(`(?m)^machine:`)},
	{"a settings file of Bottlerocket", regexp.MustCompile(`(?m)^(settings:|settings\.[a-z.-]+ *=)`)},
	{"an object of kOps", ofGroup(`kops\.k8s\.io`)},
	{"a configuration of kind", ofGroup(`kind\.x-k8s\.io`)},
	{"an object of Cluster API", ofGroup(`[a-z]+\.cluster\.x-k8s\.io`)},
	{"a configuration of k0s", ofGroup(`k0s\.k0sproject\.io`)},
	{"a variables file of Kubespray", regexp.MustCompile(`(?m)^kube(let)?_[a-z_]+:`)},
}

// ofGroup returns a pattern that finds the objects of an API group.
func ofGroup(group string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^apiVersion: *["']?` + group + `/`)
}

// keys has the keys of JSON objects that identify a form.
var keys = []struct {
	key  string
	form Form
}{{"lscpu", LscpuJSON}, {"cpus", LscpuExtendedJSON}, {"kubeletconfig", KubeletAnswer}}

var firstKey = regexp.MustCompile(`^\s*\{\s*"([^"]*)"`)

// Text returns the text without the byte order mark that some editors write at the beginning.
func Text(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// What detects the form of a text. For a JSON object it looks at the keys, otherwise only at the
// beginning of the text.
func What(text []byte) Form {
	if text = Text(text); isUTF16(text) {
		return UTF16
	}
	if object := map[string]json.RawMessage{}; strings.HasPrefix(strings.TrimSpace(string(text[:min(len(text), 256)])), "{") {
		_ = json.Unmarshal(text, &object)
		first := firstKey.FindSubmatch(text) // this also works for broken JSON
		for _, k := range keys {
			if _, ok := object[k.key]; ok || first != nil && string(first[1]) == k.key {
				return k.form
			}
		}
		text = topOf(object)
	}
	text = text[:min(len(text), longestFirst)]
	form := match(lines, text)
	switch form {
	case Unknown, KubeletFlags:
		return cmp.Or(match(inside, text), match(products, text), form)
	case KubernetesObject:
		return cmp.Or(match(products, text), form)
	}
	return form
}

func match(signs []sign, text []byte) Form {
	for _, s := range signs {
		if s.line.Match(text) {
			return s.form
		}
	}
	return Unknown
}

// topOf returns the top of a JSON object as YAML: its keys, and the values that name its type.
func topOf(object map[string]json.RawMessage) (out []byte) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		var value string
		if key == "kind" || key == "apiVersion" {
			_ = json.Unmarshal(object[key], &value)
		}
		out = fmt.Appendf(out, "%.100s: %.100s\n", key, value)
	}
	return out
}

// IsProduct reports whether a product makes a kubelet's configuration from texts of this form.
func (f Form) IsProduct() bool {
	return slices.ContainsFunc(slices.Concat(inside, products), func(s sign) bool { return s.form == f })
}

// IsMachine reports whether texts of this form show a machine.
func (f Form) IsMachine() bool {
	switch f {
	case Lscpu, LscpuJSON, LscpuExtended, LscpuExtendedJSON, LscpuParsable, LscpuCaches, Numactl, NumactlShow, NvidiaTopology, NvidiaSMI, Lstopo, CPUInfo:
		return true
	}
	return false
}

// strays are characters and marks that do not belong in a file. Values may contain them, so they
// only help to explain errors.
var strays = []struct {
	sign *regexp.Regexp
	text string
}{
	{regexp.MustCompile("(?m)^[ \\t>]*(```|~~~)"), "is a fence of Markdown: want only the text inside of the fences"},
	{regexp.MustCompile(`(?m)^[ \t]*\|.*\|[ \t]*\r?$`), "is a row of a table: want the file itself"},
	{regexp.MustCompile(`\{\{`), "has {{ of a template: want the result, as helm template prints it"},
	{regexp.MustCompile("\u00a0"), "has a no-break space (U+00A0): want a space"},
	{regexp.MustCompile("[\u201c\u201d\u2018\u2019]"), "has typographic quotes: want plain ones"},
	{regexp.MustCompile(`(?m)^ *\t+[ \t]*[^ \t\r\n#]`), "is indented with a tab: want spaces, as in YAML"},
	{regexp.MustCompile(`(?m)^(<<<<<<<|>>>>>>>) `), "is a mark of a merge conflict: resolve it first"},
	{regexp.MustCompile(`(?m)^[ \t]*([$#]|[a-z0-9_.-]+@[^ ]+[$#]) (kubectl|cat|ssh|sudo|lscpu) `), "is a command after a prompt: want only what it printed"},
}

// isUTF16 reports whether a text begins with the byte order mark of UTF-16, as files of PowerShell
// do.
func isUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff"))
}

// Explain adds a likely cause to the error: that the text is empty, in UTF-16 or packed, or the
// first stray character or mark in the text.
func Explain(err error, text []byte) error {
	if err == nil {
		return nil
	}
	text = text[:min(len(text), longestFirst)]
	switch {
	case len(bytes.TrimSpace(Text(text))) == 0:
		return fmt.Errorf("%w; the text is empty", err)
	case isUTF16(text):
		return fmt.Errorf("%w; the text is in UTF-16, which Windows PowerShell writes: want UTF-8", err)
	case bytes.HasPrefix(text, []byte("\x1f\x8b")):
		return fmt.Errorf("%w; it is compressed with gzip: decompress it first", err)
	}
	for _, s := range strays {
		if at := s.sign.FindIndex(text); at != nil {
			return fmt.Errorf("%w; line %d %s", err, 1+bytes.Count(text[:at[0]], []byte("\n")), s.text)
		}
	}
	return err
}
