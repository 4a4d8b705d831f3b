package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/suggest"
)

// MaxInput is the maximum size of the input in bytes. Volcano's installation files, which contain
// the configuration, have more than 1 MiB.
const MaxInput = 4 << 20

// settings is a Volcano configuration.
type settings struct {
	// Actions are in the order of the configuration.
	Actions []string
	// Plugins are the plugins of all tiers, in the order of the configuration.
	Plugins []plugin
	// Configurations are the arguments of actions. In Ascend's Volcano, they also include the
	// arguments of Ascend's plugin.
	Configurations []plugin
	// Parameters are the other keys of a product's add-on, next to the configuration.
	Parameters []string
	// Notes and Unknown are texts about the remaining keys, as in Result.
	Notes, Unknown []string
}

type plugin struct {
	Name string
	// Tier is the index of the plugin's tier.
	Tier      int
	Arguments map[string]string
	// Switches are the keys in switches next to the arguments.
	Switches map[string]bool
	// Quoted has the arguments whose value is a text, such as "10", not a number such as 10.
	Quoted map[string]bool
}

// wanted describes valid input, for errors.
const wanted = "want volcano-scheduler.conf, the ConfigMap that holds it, or the parameters of an add-on"

// read finds the settings in a text. The text may also contain other objects.
func read(text []byte) (settings, error) {
	documents, err := documentsOf(text)
	if err != nil {
		return settings{}, err
	}
	var found []map[string]any
	var names, others []string
	for _, object := range documents {
		if !holds(object, 0) {
			others = append(others, nameOf(object))
			continue
		}
		found, names = append(found, object), append(names, nameOf(object))
	}
	switch {
	case len(found) > 1:
		return settings{}, fmt.Errorf("%d configurations, in %s: want one at a time", len(found), strings.Join(names, " and "))
	case len(found) == 0 && len(others) == 0:
		return settings{}, errors.New("nothing in it: " + wanted)
	case len(found) == 0:
		return settings{}, fmt.Errorf("no volcano-scheduler.conf in it, but %s: %s%s", strings.Join(others, ", "), wanted, misspelt(documents[0]))
	}
	var s settings
	if len(others) > 0 {
		s.note("ignored, because there is no configuration in it: %s", strings.Join(others, ", "))
	}
	return s, s.take("", found[0], 0)
}

// documentsOf returns the objects in a text. If an object is a list, it returns the list's items.
func documentsOf(text []byte) (out []map[string]any, err error) {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(withoutSlashComments(text))))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		var document any
		if err == nil {
			err = yaml.Unmarshal(doc, &document)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: want the original YAML or JSON, because a copy from a web page may lack braces and list marks", err)
		}
		if err := yaml.UnmarshalStrict(doc, &document); err != nil {
			return nil, fmt.Errorf("%s: want every key once", strings.Join(strings.Fields(err.Error()), " "))
		}
		if document == nil {
			continue
		}
		object, ok := document.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("got %.40q: want an object with actions and tiers", fmt.Sprint(document))
		}
		out = append(out, itemsOf(object)...)
	}
}

// itemsOf returns the items of a list. If the object is not a list, it returns the object.
func itemsOf(object map[string]any) (out []map[string]any) {
	items, ok := object["items"].([]any)
	if kind, _ := object["kind"].(string); !ok || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}
	}
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			out = append(out, one)
		}
	}
	return out
}

func nameOf(object map[string]any) string {
	kind, _ := object["kind"].(string)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if kind == "" {
		return fmt.Sprintf("an object with %.80q", sortedKeys(object))
	}
	name = strings.TrimSpace(fmt.Sprintf("%.40s %.80s", kind, name))
	if data, ok := object["data"].(map[string]any); ok && len(data) > 0 && kind == "ConfigMap" && !holds(object, 0) {
		name += fmt.Sprintf(" with %.200s", "data."+strings.Join(sortedKeys(data), ", data."))
	}
	if data, ok := object["binaryData"].(map[string]any); ok && len(data) > 0 {
		name += fmt.Sprintf(" with %.200s (not read: want the text below data)", "binaryData."+strings.Join(sortedKeys(data), ", binaryData."))
	}
	return name
}

// misspelt returns a note about a key that resembles a key of a configuration, or "".
func misspelt(object map[string]any) string {
	for _, key := range sortedKeys(object) {
		if near := suggest.DidYouMean(key, confKeys); near != "" {
			return fmt.Sprintf("; key %.40q%s", key, near)
		}
	}
	return ""
}

var (
	confKeys = []string{"actions", "tiers", "configurations", "metrics"}
	// inner are the keys of the ConfigMap, of the chart and of the add-on whose value is a
	// configuration, as a text or as an object.
	inner = []string{"volcano-scheduler.conf", "default-scheduler.conf", "volcano-scheduler-ci.conf", "default_scheduler_conf", "scheduler_config_override"}
	// wrappers are the keys of the ConfigMap, of the chart and of an add-on's API whose value is an
	// object with one of the keys in inner.
	wrappers = []string{"data", "custom", "values", "spec"}
)

// maxDepth is the maximum number of objects around a configuration.
const maxDepth = 6

func isConf(object map[string]any) bool {
	_, actions := object["actions"]
	_, tiers := object["tiers"]
	_, plugins := object["plugins"].([]any)
	_, named := object["kind"]
	return !named && (actions || tiers || plugins)
}

// holds reports whether the object contains a configuration or the parameters of an add-on.
func holds(object map[string]any, depth int) bool {
	if depth > maxDepth {
		return false
	}
	if isConf(object) {
		return true
	}
	for _, key := range inner {
		if object[key] != nil {
			return true
		}
	}
	for _, key := range wrappers {
		if below, ok := object[key].(map[string]any); ok && holds(below, depth+1) {
			return true
		}
	}
	return slices.ContainsFunc(sortedKeys(object), func(key string) bool { return ownParameters[key] != "" })
}

// take reads an object of any supported form into s. The argument at is the path of the object, for
// messages.
func (s *settings) take(at string, object map[string]any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: want at most %d objects around a configuration", at, maxDepth)
	}
	if isConf(object) {
		return s.takeConf(at, object)
	}
	below := ""
	for _, key := range slices.Concat(inner, wrappers) {
		conf, ok := object[key].(map[string]any)
		if text, isText := object[key].(string); isText {
			ok = slices.Contains(inner, key)
			if ok && below == "" {
				documents, err := documentsOf([]byte(text))
				if err != nil || len(documents) != 1 {
					return fmt.Errorf("%s: %w", join(at, key), cmp.Or(err, errors.New("want one configuration")))
				}
				conf = documents[0]
			}
		}
		switch {
		case !ok && slices.Contains(inner, key) && object[key] != nil:
			return fmt.Errorf("%s: got %.40q: want a configuration", join(at, key), fmt.Sprint(object[key]))
		case !ok, slices.Contains(wrappers, key) && !holds(conf, depth+1):
			continue
		}
		if below != "" {
			s.Unknown = append(s.Unknown, fmt.Sprintf("%s: a second configuration, next to %s: convert it separately", join(at, key), join(at, below)))
			continue
		}
		below = key
		read := s.take
		if slices.Contains(inner, key) && !holds(conf, depth+1) {
			read = func(at string, conf map[string]any, _ int) error { return s.takeConf(at, conf) }
		}
		if err := read(join(at, key), conf, depth+1); err != nil {
			return err
		}
	}
	for _, key := range inner {
		if value, told := object[key]; told && value == nil && below == "" {
			return fmt.Errorf("%s: it is empty: %s", join(at, key), wanted)
		}
	}
	for _, key := range sortedKeys(object) {
		_, isObject := object["kind"]
		products, product := object["plugins"].(map[string]any)
		switch {
		case slices.Contains(inner, key), key == below:
		case isObject && slices.Contains([]string{"apiVersion", "kind", "metadata", "immutable", "status"}, key):
		case key == "plugins" && product: // the key plugins of the add-on, not that of the scheduler's configuration
			for _, name := range sortedKeys(products) {
				s.Parameters = append(s.Parameters, "plugins."+name)
			}
		case at == "data" && strings.Contains(key, "."):
			s.note("%s: this text of the ConfigMap is not read", join(at, key))
		default:
			s.Parameters = append(s.Parameters, key)
		}
	}
	return nil
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func (s *settings) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// strange records a key that Volcano does not know.
func (s *settings) strange(at, key string, known []string) {
	where := ""
	if at != "" {
		where = at + ": "
	}
	s.Unknown = append(s.Unknown, fmt.Sprintf("%skey %.80q: Volcano does not know this key, and ignores it%s", where, key, suggest.DidYouMean(key, known)))
}

func (s *settings) takeConf(at string, object map[string]any) (err error) {
	for _, key := range sortedKeys(object) {
		switch value := object[key]; key {
		case "actions":
			text, ok := value.(string)
			if !ok {
				return fmt.Errorf("%s: got %.40q: want names separated by commas", join(at, key), fmt.Sprint(value))
			}
			s.Actions = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; ", r) })
			if !slices.Equal(s.Actions, itemsBetweenCommas(text)) {
				s.Unknown = append(s.Unknown, fmt.Sprintf("%s %.80q: Volcano refuses it and keeps its last configuration: want names separated by single commas", join(at, key), text))
			}
		case "tiers":
			err = s.takeTiers(join(at, key), value)
		case "plugins":
			s.Plugins, err = s.takePlugins(s.Plugins, join(at, key), value)
		case "configurations":
			if value != nil {
				s.Configurations, err = s.takePlugins(nil, join(at, key), value)
			}
		case "metrics":
			s.note("metrics: Berth ignores the load of nodes: use requests")
		default:
			s.strange(at, key, confKeys)
		}
		if err != nil {
			return err
		}
	}
	if len(s.Actions) == 0 && len(s.Plugins) == 0 && len(s.Unknown) == 0 {
		return errors.New("neither actions nor tiers: " + wanted)
	}
	return nil
}

func (s *settings) takeTiers(at string, value any) (err error) {
	tiers, ok := value.([]any)
	if !ok && value != nil {
		return fmt.Errorf("%s: got %.40q: want a list", at, fmt.Sprint(value))
	}
	for i, tier := range tiers {
		at := fmt.Sprintf("%s[%d]", at, i)
		object, ok := tier.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: got %.40q: want an object with plugins", at, fmt.Sprint(tier))
		}
		for _, key := range sortedKeys(object) {
			if key != "plugins" {
				s.strange(at, key, []string{"plugins"})
				continue
			}
			first := len(s.Plugins)
			if s.Plugins, err = s.takePlugins(s.Plugins, at+".plugins", object[key]); err != nil {
				return err
			}
			for j := range s.Plugins[first:] {
				s.Plugins[first+j].Tier = i
			}
		}
	}
	return nil
}

// takePlugins appends a list of entries with names and arguments.
func (s *settings) takePlugins(into []plugin, at string, value any) ([]plugin, error) {
	plugins, ok := value.([]any)
	if !ok && value != nil { // Volcano reads an empty tier
		return nil, fmt.Errorf("%s: got %.40q: want a list", at, fmt.Sprint(value))
	}
	for i, one := range plugins {
		object, _ := one.(map[string]any)
		name, ok := object["name"].(string)
		if !ok || name == "" {
			return nil, fmt.Errorf("%s[%d]: got %.40q: want an object with a name", at, i, fmt.Sprint(one))
		}
		p := plugin{Name: name, Arguments: map[string]string{}, Quoted: map[string]bool{}, Switches: map[string]bool{}}
		value, told := object["arguments"]
		beside := told && value == nil
		for _, key := range sortedKeys(object) {
			arguments, isMap := object[key].(map[string]any)
			switch {
			case key == "name", object[key] == nil:
			case key == "arguments" && isMap:
				for _, k := range sortedKeys(arguments) {
					p.Arguments[k] = textOf(arguments[k])
					_, p.Quoted[k] = arguments[k].(string)
				}
			case slices.Contains(switches, key):
				value := fmt.Sprint(object[key])
				if _, err := strconv.ParseBool(value); err != nil {
					s.Unknown = append(s.Unknown, fmt.Sprintf("plugin %.80s: %s %.40q: want true or false", name, key, value))
					continue
				}
				p.Switches[key], _ = strconv.ParseBool(value)
			case key == "arguments":
				return nil, fmt.Errorf("%s[%d].arguments: got %.40q: want an object", at, i, fmt.Sprint(object[key]))
			case beside:
				s.Unknown = append(s.Unknown, fmt.Sprintf("plugin %.80s: key %.80q: Volcano does not read it next to arguments: want it inside arguments", name, key))
			default:
				s.strange(fmt.Sprintf("plugin %.80s", name), key, slices.Concat([]string{"name", "arguments"}, switches))
			}
		}
		into = append(into, p)
	}
	return into, nil
}

// withoutComment removes a comment that begins with # or // outside of quotes.
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
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'), c == '/' && strings.HasPrefix(line[i:], "//") && (i == 0 || line[i-1] != ':'): // but not in "http://"
			return line[:i]
		}
	}
	return line
}

// withoutSlashComments removes // comments, which are used in JSON with comments but are not valid
// in YAML.
func withoutSlashComments(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.Contains(line, "//") {
			lines[i] = withoutComment(line)
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// itemsBetweenCommas splits a list as Volcano does.
func itemsBetweenCommas(text string) (out []string) {
	for item := range strings.SplitSeq(text, ",") {
		out = append(out, strings.TrimSpace(item))
	}
	return out
}

// textOf returns a value as it was written: %v writes 1000000 as 1e+06.
func textOf(value any) string {
	if number, ok := value.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
