package kubeletconfig

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/internal/pasted"
	"github.com/berth-dev/berth/internal/wire"
)

// given is the configuration of a kubelet from a text in one of the supported forms.
type given struct {
	object map[string]any
	// settled means that the kubelet itself returned the configuration, including its defaults.
	settled bool
	// fileless means that the kubelet has no configuration file, only flags.
	fileless bool
	flags    *flags
}

// forms names the supported forms of a text.
const forms = "want a KubeletConfiguration, kubeadm's ConfigMap kubelet-config, a kubelet's answer to /configz, or its flags"

// refuse returns an error for a form without a kubelet's configuration. The error does not quote
// the text, which may contain secrets.
func refuse(where string, form pasted.Form) error {
	const answer = "the answer of the node's kubelet (kubectl get --raw /api/v1/nodes/NODE/proxy/configz)"
	switch {
	case form.IsProduct():
		return fmt.Errorf("%s: this is %s, which has only a part of the kubelet's configuration: want %s, or a KubeletConfiguration with the whole configuration", where, form, answer)
	case form == pasted.EffectiveConfig: // cmd/kubelet/app/server.go
		return fmt.Errorf("%s: this is %s: want only that configuration, as YAML or JSON without the text of the log, or %s", where, form, answer)
	case form == pasted.KubeletLog: // PrintFlags of k8s.io/component-base/cli/flag
		return fmt.Errorf("%s: this is %s, which does not distinguish defaults from flags that were set: want the kubelet's command line as ps prints it, or %s", where, form, answer)
	case form.IsMachine(), form == pasted.Table, form == pasted.Description:
		return fmt.Errorf("%s: this is %s: %s", where, form, forms)
	}
	return nil
}

// read reads a text from a user. The argument where names the text in errors.
func (f Files) read(where string, data []byte) (g given, err error) {
	data = pasted.Text(data)
	form := pasted.What(data)
	if err := refuse(where, form); err != nil {
		return g, err
	}
	switch {
	case f.Plain && form != pasted.KubeletConfig && form != pasted.Unknown:
		return g, fmt.Errorf("%s: this is %s: want a KubeletConfiguration", where, form)
	case form == pasted.KubeletAnswer:
		g.settled = true
		g.object, err = answered(where, data)
		return g, err
	case form == pasted.KubeletFlags:
		g.object, g.fileless = map[string]any{}, true
		if g.flags, err = readFlags(string(data), f.Version); err == nil {
			err = g.flags.alone("", f.Dir)
		}
		if err != nil {
			return g, fmt.Errorf("%s: %w", where, err)
		}
		return g, nil
	case form == pasted.KubernetesObject, form == pasted.KubeletConfig:
		return f.documents(where, data)
	}
	if g.object, err = f.parse(where, data); err != nil && form == pasted.Unknown && g.object == nil {
		return g, fmt.Errorf("%w: %s", err, forms)
	}
	return g, err
}

// answered returns the configuration in a kubelet's answer of /configz.
func answered(where string, data []byte) (map[string]any, error) {
	var answer struct {
		Config map[string]any `json:"kubeletconfig"`
	}
	err := yaml.Unmarshal(data, &answer)
	if err == nil && answer.Config == nil {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: kubeletconfig: %w: want an object, as in a kubelet's answer to /configz", where, err)
	}
	SettleEviction(answer.Config) // /configz omits an empty evictionHard
	return answer.Config, nil
}

// kubeadm are the kinds that a file for kubeadm may contain in addition to a KubeletConfiguration.
var kubeadm = []string{"ClusterConfiguration", "InitConfiguration", "JoinConfiguration", "KubeProxyConfiguration", "UpgradeConfiguration", "ResetConfiguration"}

// documents finds the configuration among the objects of a text. It may be a separate object, or in
// a ConfigMap, or in a file for kubeadm.
func (f Files) documents(where string, data []byte) (g given, err error) {
	var extra []string
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var object map[string]any
		if err == nil {
			err = yaml.Unmarshal(doc, &object)
		}
		if err != nil {
			return g, fmt.Errorf("%s: %w", where, err)
		}
		kind, _ := object["kind"].(string)
		here, text := where, doc
		switch {
		case len(object) == 0:
			continue
		case kind == "ConfigMap":
			key, inner, err := inConfigMap(object)
			if err != nil {
				return g, fmt.Errorf("%s: %w", where, err)
			}
			here, text = where+": data."+key, []byte(inner)
		case slices.Contains(kubeadm, kind):
			args, err := extraArgs(object)
			if err != nil {
				return g, fmt.Errorf("%s: %s: %w", where, kind, err)
			}
			if extra != nil && args != nil && !slices.Equal(extra, args) {
				return g, fmt.Errorf("%s: %s: kubeletExtraArgs differ from those of another document: want only the document with which the node was made", where, kind)
			}
			if args != nil {
				extra = args
			}
			continue
		case pasted.What(doc).IsProduct():
			return g, refuse(where, pasted.What(doc))
		case kind != "" && kind != "KubeletConfiguration":
			return g, fmt.Errorf("%s: kind: %.80q: %s", where, kind, forms)
		}
		if g.object != nil {
			return g, fmt.Errorf("%s: two configurations of a kubelet: want one", where)
		}
		if g.object, err = f.parse(here, text); err != nil {
			return g, err
		}
	}
	if g.object == nil {
		if extra != nil {
			return g, fmt.Errorf("%s: this has only kubeletExtraArgs of kubeadm, which are a part of the kubelet's configuration: append the KubeletConfiguration or kubeadm's ConfigMap kubelet-config after a line ---", where)
		}
		return g, fmt.Errorf("%s: no KubeletConfiguration in it: %s", where, forms)
	}
	if len(extra) > 0 {
		if g.flags, err = readFlags(strings.Join(extra, "\n"), f.Version); err != nil {
			return g, fmt.Errorf("%s: kubeletExtraArgs: %w", where, err)
		}
	}
	return g, nil
}

// inConfigMap returns the configuration in a ConfigMap as text, and its key. kubeadm uses the key
// kubelet.
func inConfigMap(object map[string]any) (key, text string, err error) {
	data, _ := object["data"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text, _ := data[key].(string)
		if key == "kubelet" || pasted.What([]byte(text)) == pasted.KubeletConfig {
			return key, text, nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text, _ := data[key].(string)
		if err := refuse("ConfigMap: data."+key, pasted.What([]byte(text))); err != nil {
			return "", "", err
		}
	}
	keys := strings.Join(slices.Sorted(maps.Keys(data)), ", ")
	return "", "", fmt.Errorf("ConfigMap: keys of data: %.200q: want the key kubelet, as in kubeadm's ConfigMap kubelet-config", keys)
}

// extraArgs returns nodeRegistration.kubeletExtraArgs as lines with one flag each. The field is a
// list of names and values since kubeadm.k8s.io/v1beta4, and was an object before.
func extraArgs(object map[string]any) (lines []string, err error) {
	registration, _ := object["nodeRegistration"].(map[string]any)
	switch args := registration["kubeletExtraArgs"].(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(args)) {
			lines = append(lines, fmt.Sprintf("--%s=%v", name, args[name]))
		}
	case []any:
		for _, one := range args {
			arg, _ := one.(map[string]any)
			if arg["name"] == nil || arg["value"] == nil {
				return nil, wrongArgs(one)
			}
			lines = append(lines, fmt.Sprintf("--%v=%v", arg["name"], arg["value"]))
		}
	case nil:
	default:
		return nil, wrongArgs(args)
	}
	return lines, nil
}

func wrongArgs(value any) error {
	text, _ := json.Marshal(value)
	return &wire.FieldError{Object: "nodeRegistration", Field: "kubeletExtraArgs", Value: string(text), Want: "a list of objects with name and value (or, before kubeadm.k8s.io/v1beta4, one object)"}
}
