package convert

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// MaxInput bounds what is read: a ConfigMap holds no more than 1 MiB.
const MaxInput = 1 << 20

// settings is a Volcano configuration.
type settings struct {
	// Actions are in their order.
	Actions []string
	// Plugins are those of all tiers, in their order.
	Plugins []plugin
	// Others are keys besides, as a product has them around the configuration.
	Others []string
	// ByLine says that the text was read line by line, since it is no YAML.
	ByLine bool
}

type plugin struct {
	Name      string
	Arguments map[string]string
}

// read takes the settings out of a text.
func read(text []byte) (settings, error) {
	if len(text) > MaxInput {
		return settings{}, fmt.Errorf("%d bytes: want at most %d, as a ConfigMap holds", len(text), MaxInput)
	}
	var document any
	if err := yaml.Unmarshal(withoutSlashComments(text), &document); err != nil {
		return readLines(string(text))
	}
	var s settings
	if err := s.take(document, 0); err != nil {
		if byLine, err := readLines(string(text)); err == nil {
			return byLine, nil
		}
		return settings{}, err
	}
	return s, s.check()
}

func (s *settings) check() error {
	if len(s.Actions) == 0 && len(s.Plugins) == 0 && len(s.Others) == 0 {
		return fmt.Errorf("neither actions nor tiers: want volcano-scheduler.conf, its ConfigMap, or the add-on's parameters")
	}
	return nil
}

// inner are the keys below which a configuration stands: those of a ConfigMap as texts.
var inner = []string{"volcano-scheduler.conf", "default-scheduler.conf", "default_scheduler_conf"}

// maxDepth bounds texts in texts.
const maxDepth = 3

// take reads a document of any of the forms.
func (s *settings) take(document any, depth int) error {
	object, ok := document.(map[string]any)
	if !ok || depth > maxDepth {
		return fmt.Errorf("got %.40q: want an object with actions and tiers", fmt.Sprint(document))
	}
	if data, ok := object["data"].(map[string]any); ok {
		return s.take(data, depth+1)
	}
	for _, key := range inner {
		switch conf := object[key].(type) {
		case string:
			read, err := read([]byte(conf))
			s.Others, read.Others = othersIn(object), nil
			read.Others, *s = s.Others, read
			return err
		case map[string]any:
			if err := s.take(conf, depth+1); err != nil {
				return err
			}
			s.Others = append(s.Others, othersIn(object)...)
			return nil
		}
	}
	return s.takeConf(object)
}

// othersIn lists the keys of an object that no configuration is below.
func othersIn(object map[string]any) (keys []string) {
	for _, key := range sortedKeys(object) {
		if !contains(inner, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// takeConf reads the configuration itself.
func (s *settings) takeConf(object map[string]any) error {
	for _, key := range sortedKeys(object) {
		switch value := object[key]; key {
		case "actions":
			text, ok := value.(string)
			if !ok {
				return fmt.Errorf("actions: got %.40q: want names with commas between them", fmt.Sprint(value))
			}
			s.Actions = namesIn(text)
		case "tiers":
			if err := s.takeTiers(value); err != nil {
				return err
			}
		case "plugins":
			if products, ok := value.(map[string]any); ok { // the add-on's, not the scheduler's
				for _, name := range sortedKeys(products) {
					s.Others = append(s.Others, "plugins."+name)
				}
				continue
			}
			if err := s.takePlugins("plugins", value); err != nil {
				return err
			}
		default:
			s.Others = append(s.Others, key)
		}
	}
	return nil
}

func (s *settings) takeTiers(value any) error {
	tiers, ok := value.([]any)
	if !ok {
		return fmt.Errorf("tiers: got %.40q: want a list", fmt.Sprint(value))
	}
	for i, tier := range tiers {
		object, ok := tier.(map[string]any)
		if !ok {
			return fmt.Errorf("tiers[%d]: got %.40q: want an object with plugins", i, fmt.Sprint(tier))
		}
		if err := s.takePlugins(fmt.Sprintf("tiers[%d].plugins", i), object["plugins"]); err != nil {
			return err
		}
	}
	return nil
}

func (s *settings) takePlugins(at string, value any) error {
	plugins, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%s: got %.40q: want a list", at, fmt.Sprint(value))
	}
	for i, one := range plugins {
		object, _ := one.(map[string]any)
		name, ok := object["name"].(string)
		if !ok || name == "" {
			return fmt.Errorf("%s[%d]: got %.40q: want an object with a name", at, i, fmt.Sprint(one))
		}
		p := plugin{Name: name, Arguments: map[string]string{}}
		for _, key := range sortedKeys(object) {
			switch value := object[key].(type) {
			case map[string]any:
				for _, k := range sortedKeys(value) {
					p.Arguments[k] = fmt.Sprint(value[k])
				}
			default:
				if key != "name" && value != nil {
					p.Arguments[key] = fmt.Sprint(value)
				}
			}
		}
		s.Plugins = append(s.Plugins, p)
	}
	return nil
}

// readLines reads a page's print, in which braces, list marks and the keys between have been lost:
// what is left are names, and arguments below the name that they belong to.
func readLines(text string) (settings, error) {
	s := settings{ByLine: true}
	foreign := len(text) // how far an object of the add-on's is indented; lines below it are its own
	for n, line := range strings.Split(text, "\n") {
		key, value, ok := entryOf(line)
		if !ok {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		if indent > foreign {
			continue
		}
		foreign = len(text)
		switch {
		case key == "" || len(key) > 253:
			return settings{}, fmt.Errorf("line %d: %.60q: want NAME: VALUE", n+1, strings.TrimSpace(line))
		case key == "actions":
			s.Actions = namesIn(value)
		case key == "name" && strings.HasSuffix(value, "-configmap"): // of the ConfigMap
		case key == "name":
			s.Plugins = append(s.Plugins, plugin{Name: value, Arguments: map[string]string{}})
		case value == "" || value == "|-" || value == "|", contains(frame, key):
			if s.open(key) {
				foreign = indent
			}
		case len(s.Plugins) > 0 && !contains(around, key):
			s.Plugins[len(s.Plugins)-1].Arguments[key] = value
		default:
			s.Others = append(s.Others, key)
		}
	}
	if err := s.check(); err != nil {
		return settings{}, err
	}
	return s, nil
}

// frame are keys around the configuration that say nothing about it; around are those of the
// add-on.
var (
	frame  = []string{"kind", "apiVersion", "namespace", "metadata", "data", "tiers", "plugins", "arguments", "configurations"}
	around = []string{"ca_cert", "server_cert", "server_key", "resource_exporter_enable"}
)

// open notes a key of the add-on, and says whether it holds keys of its own.
func (s *settings) open(key string) (foreign bool) {
	known := contains(around, key)
	if !known && (contains(frame, key) || contains(inner, key) || len(s.Plugins) > 0) {
		return false
	}
	s.Others = append(s.Others, key)
	return !known
}

// entryOf reads one line: a key and its value, without list marks, quotes, commas and comments. A
// line without a word in it is none.
func entryOf(line string) (key, value string, ok bool) {
	line = strings.TrimSpace(withoutComment(line))
	line = strings.TrimLeft(line, "-{}[], \t")
	line = strings.TrimRight(line, "{}[], \t")
	if line == "" {
		return "", "", false
	}
	key, value, found := strings.Cut(line, ":")
	if !found {
		return "", "", true
	}
	return unquoted(key), unquoted(value), true
}

func unquoted(text string) string { return strings.Trim(strings.TrimSpace(text), `"'`) }

// withoutComment drops what stands behind # or // outside of quotes.
func withoutComment(line string) string {
	var quote byte
	for i := range len(line) {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'), c == '/' && strings.HasPrefix(line[i:], "//") && (i == 0 || line[i-1] != ':'): // http:// is none
			return line[:i]
		}
	}
	return line
}

// withoutSlashComments drops // comments, which JSON with comments has and YAML does not.
func withoutSlashComments(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.Contains(line, "//") {
			lines[i] = withoutComment(line)
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

func namesIn(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
