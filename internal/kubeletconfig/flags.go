package kubeletconfig

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/suggest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/placement"
)

func flagError(name, value, want string) error {
	return &wire.FieldError{Object: "flags of the kubelet", Field: "--" + name, Value: value, Want: want}
}

// flags are the settings of a kubelet's command line, in the form of a KubeletConfiguration.
type flags struct {
	object map[string]any
	// config and dir are --config and --config-dir.
	config, dir string
	// ignoresEviction is --experimental-allocatable-ignore-eviction, or nil if it is not set.
	ignoresEviction *bool
	version         placement.Version
}

// setter writes the value of a flag to an object.
type setter func(object map[string]any, name, value string) error

// told has the flags that affect placement, or with whose values a kubelet may not start, each with
// the field that it sets.
var told = map[string]struct {
	field string
	set   func(field string) setter
}{
	"reserved-cpus":                   {"reservedSystemCPUs", asText},
	"cpu-manager-policy":              {"cpuManagerPolicy", asText},
	"cpu-manager-policy-options":      {"cpuManagerPolicyOptions", asOption},
	"memory-manager-policy":           {"memoryManagerPolicy", asText},
	"reserved-memory":                 {"reservedMemory", asReservedMemory},
	"topology-manager-policy":         {"topologyManagerPolicy", asText},
	"topology-manager-scope":          {"topologyManagerScope", asText},
	"topology-manager-policy-options": {"topologyManagerPolicyOptions", asPairs("=")},
	"kube-reserved":                   {"kubeReserved", asPairs("=")},
	"system-reserved":                 {"systemReserved", asPairs("=")},
	"eviction-hard":                   {"evictionHard", asPairs("<")},
	"eviction-soft":                   {"evictionSoft", asPairs("<")},
	"eviction-soft-grace-period":      {"evictionSoftGracePeriod", asPairs("=")},
	"eviction-minimum-reclaim":        {"evictionMinimumReclaim", asPairs("=")},
	"enforce-node-allocatable":        {"enforceNodeAllocatable", asList},
	"system-reserved-cgroup":          {"systemReservedCgroup", asText},
	"kube-reserved-cgroup":            {"kubeReservedCgroup", asText},
	"feature-gates":                   {"featureGates", asGates},
	"max-pods":                        {"maxPods", asNumber},
	"pods-per-core":                   {"podsPerCore", asNumber},
}

// switchFlags and otherFlags are the other flags of kubelets 1.33 to 1.37 on Linux. A switchFlag
// may have no value, and an otherFlag needs a value. Only ignoreEviction affects placement.
var (
	switchFlags = strings.Fields(`anonymous-auth authentication-token-webhook cgroups-per-qos contention-profiling cpu-cfs-quota enable-controller-attach-detach
		enable-debugging-handlers enable-server exit-on-lock-contention experimental-allocatable-ignore-eviction fail-cgroupv1 fail-swap-on
		kernel-memcg-notification local-storage-capacity-isolation make-iptables-util-chains protect-kernel-defaults register-node
		rotate-certificates rotate-server-certificates runonce seccomp-default serialize-image-pulls version help enable-load-reader
		log-cadvisor-usage register-schedulable storage-driver-secure`)
	otherFlags = strings.Fields(`address allowed-unsafe-sysctls authentication-token-webhook-cache-ttl authorization-mode authorization-webhook-cache-authorized-ttl
		authorization-webhook-cache-unauthorized-ttl bootstrap-kubeconfig cert-dir cgroup-driver cgroup-root client-ca-file cloud-config
		cloud-provider cluster-dns cluster-domain container-log-max-files container-log-max-size container-runtime-endpoint cpu-cfs-quota-period
		cpu-manager-reconcile-period event-burst event-qps eviction-max-pod-grace-period eviction-pressure-transition-period
		experimental-mounter-path file-check-frequency hairpin-mode healthz-bind-address healthz-port hostname-override http-check-frequency
		image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold image-gc-low-threshold image-service-endpoint
		kube-api-burst kube-api-content-type kube-api-qps kubeconfig kubelet-cgroups lock-file log-flush-frequency log-json-info-buffer-size
		log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format manifest-url manifest-url-header max-open-files
		maximum-dead-containers maximum-dead-containers-per-container minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels
		node-status-max-images node-status-update-frequency oom-score-adj pod-cidr pod-manifest-path pod-max-pids port provider-id qos-reserved
		read-only-port register-with-taints registry-burst registry-qps resolv-conf root-dir runtime-cgroups runtime-request-timeout
		streaming-connection-idle-timeout sync-frequency system-cgroups tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file v
		vmodule volume-plugin-dir volume-stats-agg-period pod-infra-container-image application-metrics-count-limit boot-id-file container-hints containerd
		containerd-namespace event-storage-age-limit event-storage-event-limit global-housekeeping-interval housekeeping-interval machine-id-file
		storage-driver-buffer-duration storage-driver-db storage-driver-host storage-driver-password storage-driver-table storage-driver-user`)
)

// removed has the flags that a kubelet does not have after the release last (options.go and
// globalflags_linux.go of cmd/kubelet/app/options). If last is 0, no kubelet since 1.33 has them.
var removed = []struct {
	last  placement.Version
	names []string
}{
	{0, strings.Fields(`allow-privileged alsologtostderr cni-bin-dir cni-conf-dir container-runtime log-dir log-file log-flush-stderr logtostderr
		network-plugin network-plugin-mtu windows-priorityclass windows-service`)},
	{placement.V133, strings.Fields("cloud-config register-schedulable")},
	{placement.V134, strings.Fields("pod-infra-container-image")}, // pkg/kubelet/config/flags.go
	{placement.V136, strings.Fields(`application-metrics-count-limit boot-id-file container-hints containerd containerd-namespace enable-load-reader
		event-storage-age-limit event-storage-event-limit global-housekeeping-interval log-cadvisor-usage machine-id-file
		storage-driver-buffer-duration storage-driver-db storage-driver-host storage-driver-password storage-driver-secure
		storage-driver-table storage-driver-user`)},
}

// checkRelease returns an error if the kubelet of this release does not have the flag anymore. It
// then does not start.
func checkRelease(name, value string, version placement.Version) error {
	for _, r := range removed {
		if !slices.Contains(r.names, name) || version <= r.last {
			continue
		}
		want := fmt.Sprintf("no such flag: kubelet 1.%d on Linux does not know it, and does not start", version)
		if r.last != 0 {
			want += fmt.Sprintf(" (the last release with it is 1.%d)", r.last)
		}
		return flagError(name, value, want)
	}
	return nil
}

// readFlags reads the flags of a kubelet: its command line as ps prints it, the lines of a unit or
// of an environment file (KUBELET_EXTRA_ARGS="..."), a list in JSON or YAML, or only the flags.
func readFlags(text string, version placement.Version) (*flags, error) {
	given := text
	text = comment.ReplaceAllString(strings.ReplaceAll(text, "\ufeff", ""), "")
	text = strings.NewReplacer("\\\r\n", " ", "\\\n", " ", "\x00", " ").Replace(text)
	if logged := running.FindAllStringSubmatch(text, -1); logged != nil {
		last := logged[len(logged)-1]
		text = cmp.Or(unquoted(last[1]), last[1], last[2])
	}
	if list := listOf(text); list != nil {
		text = strings.Join(list, " ")
	}
	text = quotedValue.ReplaceAllStringFunc(text, func(value string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(value) })
	text, err := oneProcess(text)
	if err != nil {
		return nil, err
	}
	f := &flags{object: map[string]any{}, version: cmp.Or(version, placement.V136)}
	vars := variables{values: map[string]string{}}
	command := false // the text has a flag, a variable for flags, or the kubelet's name
	for line := range strings.Lines(text) {
		words, err := vars.replace(wordsOf(line))
		if err != nil {
			return nil, err
		}
		command = command || slices.ContainsFunc(words, func(word string) bool { return isFlag(word) || path.Base(word) == "kubelet" })
		if err := f.take(words); err != nil {
			return nil, err
		}
	}
	if !command && len(vars.values)+len(vars.used) == 0 && strings.TrimSpace(given) != "" {
		return nil, &wire.FieldError{Object: "flags of the kubelet", Field: "command line", Value: strings.TrimSpace(given), Want: "flags, --name=value, or the kubelet's command line"}
	}
	for _, name := range vars.used {
		if _, ok := vars.values[name]; !ok {
			return nil, &wire.FieldError{Object: "flags of the kubelet", Field: "$" + name, Want: "its value too: NAME=\"--flag=value\", or the command line as ps prints it"}
		}
	}
	return f, nil
}

// variables are the variables with flags in a text.
type variables struct {
	values map[string]string
	used   []string
}

// replace replaces the variables of a line that are assigned by the words of their values, and
// removes the variables that are used. It returns an error if a variable gets another value than
// before.
func (v *variables) replace(words []string) ([]string, error) {
	for i := 0; i < len(words); i++ {
		if m := assigned.FindStringSubmatch(words[i]); m != nil {
			name, more, value := m[1], m[2] != "", m[3]
			old := v.values[name]
			if old != "" && old != value && !more && !use(name).MatchString(value) {
				return nil, &wire.FieldError{Object: "flags of the kubelet", Field: name, Value: value, Want: fmt.Sprintf("one value, but an earlier line has %.80q; or the command line as ps prints it", old)}
			}
			v.values[name] = value
			words = slices.Replace(words, i, i+1, wordsOf(value)...) // a quoted text may be several words
			i--
			continue
		}
		if name, ok := strings.CutPrefix(words[i], "$"); ok && (i == 0 || !wantsValue(words[i-1])) {
			v.used = append(v.used, strings.Trim(name, "{}"))
			words = slices.Delete(words, i, i+1)
			i--
		}
	}
	return words, nil
}

// running matches the kubelet's command line in the log of k3s or RKE2, or in the output of
// systemctl show. If the text has several, the last one is current.
var running = regexp.MustCompile(`\bmsg="Running (kubelet (?:[^"\\\n]|\\.)*)"|\bargv\[\]=(.*?) ; `)

// unquoted returns the text inside of the quotes of a log, or "" if the quoting is wrong.
func unquoted(text string) string {
	text, _ = strconv.Unquote(`"` + text + `"`)
	return text
}

// listOf returns the items of a list such as ["--a=1", '--b=2']. A key may precede the list, and
// the brackets may be missing. listOf returns nil if the text is not a list.
func listOf(text string) (list []string) {
	text = strings.TrimSuffix(strings.TrimSpace(text), ",")
	if key, rest, ok := strings.Cut(text, "["); ok && listKey.MatchString(key) {
		text = "[" + rest
	} else if quotedItem.MatchString(text) {
		text = "[" + text + "]"
	}
	if !strings.HasPrefix(text, "[") || !strings.HasSuffix(text, "]") || yaml.Unmarshal([]byte(text), &list) != nil || !slices.ContainsFunc(list, isFlag) {
		return nil
	}
	return list
}

var (
	listKey    = regexp.MustCompile(`^\s*(["']?[A-Za-z_]+["']?\s*[:=]\s*)?$`)
	quotedItem = regexp.MustCompile(`^(["'])--?[a-z][^"']*["']\s*,`)
)

// assigned matches a variable that is empty or has flags, as in a shell script or a systemd unit.
// Other variables may precede the flags. With += the flags are added to those that it has.
var assigned = regexp.MustCompile(`(?s)^(?:[A-Za-z]+=)?([A-Z][A-Z0-9_]*)(\+?)=((?:\s*\$\{?[A-Z][A-Z0-9_]*\}?\s)*\s*(?:-.*)?)$`)

// use matches the use of a variable.
func use(name string) *regexp.Regexp {
	return regexp.MustCompile(`\$(` + name + `\b|\{` + name + `\})`)
}

// quotedValue matches a variable whose value is in quotes, which may span lines.
var quotedValue = regexp.MustCompile(`(?m)^\s*(?:export\s+)?[A-Z][A-Z0-9_]*\+?=(?:"[^"]*"|'[^']*')`)

// comment matches a line with a comment, which systemd also accepts inside of a continued line.
var comment = regexp.MustCompile(`(?m)^[ \t]*#.*\n?`)

// process matches a line of ps, pgrep -a or systemctl status.
var process = regexp.MustCompile(`^[\s├└─│|]*(\S+\s+)?[0-9]+\s`)

// oneProcess removes the processes of other programs from a list of processes that has a kubelet.
// It returns an error if there are command lines of two kubelets with different flags.
func oneProcess(text string) (string, error) {
	var first []string
	var rest strings.Builder
	for line := range strings.Lines(text) {
		words := wordsOf(line)
		at := slices.IndexFunc(words, isFlag)
		switch {
		case at > 0 && path.Base(words[at-1]) == "kubelet":
			if first != nil && !slices.Equal(first, words[at:]) {
				return "", &wire.FieldError{Object: "flags of the kubelet", Field: "command line", Value: strings.Join(words[at-1:], " "), Want: "only one kubelet, but an earlier line has other flags"}
			}
			first = words[at:]
		case process.MatchString(line):
			continue
		}
		rest.WriteString(line)
	}
	if first == nil {
		return text, nil
	}
	return rest.String(), nil
}

// wordsOf splits a line as a shell does.
func wordsOf(line string) (words []string) {
	var word strings.Builder
	quote, begun := rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// take reads the flags of a line. Words before the first flag are the command, and are ignored
// unless they look like misspelt flags.
func (f *flags) take(words []string) error {
	at := slices.IndexFunc(words, isFlag)
	if at < 0 {
		at = len(words)
	}
	for _, word := range words[:at] {
		bare := strings.TrimLeftFunc(word, isDash)
		if name, _, valued := strings.Cut(bare, "="); (valued || bare != word) && known(normal(name)) {
			return &wire.FieldError{Object: "flags of the kubelet", Field: "command line", Value: word, Want: "--" + bare}
		}
	}
	for at < len(words) {
		word := words[at]
		bare := strings.TrimLeftFunc(word, isDash)
		name, value, _ := strings.Cut(bare, "=")
		name = normal(name)
		at++
		switch dashes := word[:len(word)-len(bare)]; {
		case dashes == "":
			return &wire.FieldError{Object: "flags of the kubelet", Field: "command line", Value: word, Want: "a flag, --name=value"}
		case dashes != "--" && known(name) && len(name) > 1:
			return &wire.FieldError{Object: "flags of the kubelet", Field: "command line", Value: word, Want: "--" + bare}
		}
		if err := checkRelease(name, value, f.version); err != nil {
			return err
		}
		if wantsValue(word) {
			if at == len(words) || strings.HasPrefix(words[at], "--") {
				return flagError(name, "", "a value")
			}
			value, at = words[at], at+1
		}
		if err := f.one(name, value); err != nil {
			return err
		}
	}
	return nil
}

// wantsValue reports whether the next word is the value of this flag.
func wantsValue(word string) bool {
	name := normal(strings.TrimLeftFunc(word, isDash))
	return isFlag(word) && known(name) && !slices.Contains(switchFlags, name)
}

func isFlag(word string) bool { return strings.HasPrefix(word, "-") && len(word) > 1 }

// isDash accepts hyphens, and the dashes with which text processors replace them.
func isDash(c rune) bool { return c == '-' || unicode.Is(unicode.Pd, c) || c == '\u2212' }

// normal returns the form of a flag's name that the kubelet compares (WordSepNormalizeFunc of
// k8s.io/component-base/cli/flag).
func normal(name string) string { return strings.ReplaceAll(name, "_", "-") }

func known(name string) bool { return slices.Contains(knownFlags(), name) }

func knownFlags() []string {
	return slices.Concat(slices.Sorted(maps.Keys(told)), []string{"config", "config-dir"}, switchFlags, otherFlags)
}

func (f *flags) one(name, value string) error {
	set, tells := told[name]
	switch {
	case tells:
		return set.set(set.field)(f.object, name, value)
	case name == "config":
		f.config = value
	case name == "config-dir":
		f.dir = value
	case name == ignoreEviction:
		on, err := strconv.ParseBool(cmp.Or(value, "true"))
		if err != nil {
			return flagError(name, value, "true or false")
		}
		f.ignoresEviction = &on
	case !known(name):
		return flagError(name, value, "a flag of the kubelet"+suggest.DidYouMean(name, knownFlags()))
	}
	return nil
}

func asText(field string) setter {
	return func(object map[string]any, _, value string) error {
		object[field] = value
		return nil
	}
}

// asPairs reads names and values with a separator between them. If the flag is repeated, its pairs
// are added to the earlier pairs.
func asPairs(separator string) func(string) setter {
	return func(field string) setter {
		return func(object map[string]any, name, value string) error {
			pairs, ok := object[field].(map[string]any)
			if !ok {
				pairs = map[string]any{}
				object[field] = pairs
			}
			for item := range strings.SplitSeq(value, ",") {
				if item = strings.TrimSpace(item); item == "" {
					continue
				}
				k, v, ok := strings.Cut(item, separator)
				if !ok {
					return flagError(name, value, "name"+separator+"value, with commas between several")
				}
				pairs[strings.TrimSpace(k)] = strings.TrimSpace(v)
			}
			return nil
		}
	}
}

// asOption reads a single pair, because the kubelet does not split this flag at commas
// (MapStringStringNoSplit).
func asOption(field string) setter {
	return func(object map[string]any, name, value string) error {
		if strings.Contains(value, ",") {
			return flagError(name, value, "one option: the kubelet does not split this flag at commas, so repeat the flag for each option")
		}
		return asPairs("=")(field)(object, name, value)
	}
}

func asList(field string) setter {
	return func(object map[string]any, _, value string) error {
		list := []any{}
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		object[field] = list
		return nil
	}
}

func asGates(field string) setter {
	return func(object map[string]any, name, value string) error {
		if err := asPairs("=")(field)(object, name, value); err != nil {
			return err
		}
		gates, _ := object[field].(map[string]any)
		for gate, text := range gates {
			if text, ok := text.(string); ok {
				on, err := strconv.ParseBool(text)
				if err != nil {
					return flagError(name, gate+"="+text, "true or false")
				}
				gates[gate] = on
			}
		}
		return nil
	}
}

func asNumber(field string) setter {
	return func(object map[string]any, name, value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return flagError(name, value, "a whole number")
		}
		object[field] = n
		return nil
	}
}

// asReservedMemory reads NUMA:RESOURCE=AMOUNT[,RESOURCE=AMOUNT...][;NUMA:...], as
// ReservedMemoryVar (cmd/kubelet/app/options) does.
func asReservedMemory(field string) setter {
	return func(object map[string]any, name, value string) error {
		list, _ := object[field].([]any)
		for item := range strings.SplitSeq(value, ";") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			numa, limits, ok := strings.Cut(item, ":")
			node, err := strconv.ParseInt(strings.TrimSpace(numa), 10, 32)
			if !ok || err != nil || node < 0 {
				return flagError(name, value, "NUMA:RESOURCE=AMOUNT[,RESOURCE=AMOUNT], like 0:memory=1Gi, with semicolons between NUMA nodes")
			}
			one := map[string]any{}
			if err := asPairs("=")("limits")(one, name, limits); err != nil {
				return err
			}
			one["numaNode"] = node
			list = append(list, one)
		}
		object[field] = list
		return nil
	}
}

// ignoreEviction is the flag with which the kubelet does not subtract the eviction threshold from
// what pods can have (cmd/kubelet/app, run).
const ignoreEviction = "experimental-allocatable-ignore-eviction"

// The method over sets the fields of an object that the flags set, as kubeletConfigFlagPrecedence
// (cmd/kubelet/app) does. Feature gates are merged with those of the object. All other fields are
// replaced.
func (f *flags) over(object map[string]any) {
	for field, value := range f.object {
		old, _ := object[field].(map[string]any)
		if gates, ok := value.(map[string]any); ok && field == "featureGates" && old != nil {
			maps.Copy(old, gates)
			continue
		}
		object[field] = value
	}
}

// alone returns an error if the flags name a configuration file or folder that the caller did not
// give.
func (f *flags) alone(file, dir string) error {
	switch {
	case f.config != "" && file == "":
		return flagError("config", f.config, "that file too: give it with --kubelet-config, and the flags with --kubelet-flags")
	case f.dir != "" && dir == "":
		return flagError("config-dir", f.dir, "that directory too: give it with --kubelet-config-dir, and the flags with --kubelet-flags")
	}
	return nil
}
