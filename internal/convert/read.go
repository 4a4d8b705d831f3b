package convert

import (
	"fmt"
	"slices"
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
		return settings{}, fmt.Errorf("%w: want YAML or JSON as it is stored: in print, braces and list marks may be lost", err)
	}
	var s settings
	if err := s.take(document, 0); err != nil {
		return settings{}, err
	}
	if len(s.Actions) == 0 && len(s.Plugins) == 0 && len(s.Others) == 0 {
		return settings{}, fmt.Errorf("neither actions nor tiers: want volcano-scheduler.conf, its ConfigMap, or the add-on's parameters")
	}
	return s, nil
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
		if !slices.Contains(inner, key) {
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
