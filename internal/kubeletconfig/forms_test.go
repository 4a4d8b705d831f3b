package kubeletconfig

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/placement"
)

// TestFlags: flags have the same effect as fields of a KubeletConfiguration.
func TestFlags(t *testing.T) {
	for text, want := range map[string]string{
		"--reserved-cpus=0-1,8": "reservedSystemCPUs: 0-1,8",
		`KUBELET_EXTRA_ARGS="--cpu-manager-policy=static --reserved-cpus=0 --fail-swap-on=false"`:                                                                                                     "{cpuManagerPolicy: static, reservedSystemCPUs: '0'}",
		"KUBELET_EXTRA_ARGS=--cpu-manager-policy=static":                                                                                                                                              "cpuManagerPolicy: static",
		"# of kubeadm\nKUBELET_KUBEADM_ARGS='--container-runtime-endpoint=unix:///x --max-pods 9'\nKUBELET_EXTRA_ARGS=":                                                                               "maxPods: 9",
		"KUBELET_EXTRA_ARGS=\"--cpu-manager-policy=static\n  --reserved-cpus=0\n\"\nexport KUBELET_LOG_ARGS='--v=2\r\n--max-pods=9'\n":                                                                "{cpuManagerPolicy: static, reservedSystemCPUs: '0', maxPods: 9}",
		"[Unit]\nDescription=the node's kubelet\n[Service]\nEnvironment=\"KUBELET_X=--topology-manager-policy=restricted --topology-manager-scope=pod\"\nExecStart=/usr/bin/kubelet $KUBELET_X --v=2": "{topologyManagerPolicy: restricted, topologyManagerScope: pod}",
		"root 812 4.2 0.3 1234 5678 ? Ssl Jan01 9:99 /usr/bin/kubelet --hostname-override=n1 --kube-reserved=cpu=500m,memory=1Gi --system-reserved cpu=1":                                             "{kubeReserved: {cpu: 500m, memory: 1Gi}, systemReserved: {cpu: '1'}}",
		"/usr/bin/kubelet \\\n  --cpu-manager-policy-options=full-pcpus-only=true \\\n  --cpu-manager-policy-options=strict-cpu-reservation=true":                                                     "cpuManagerPolicyOptions: {full-pcpus-only: 'true', strict-cpu-reservation: 'true'}",
		"--topology-manager-policy-options=a=true,b=8":                                                                                                                                                "topologyManagerPolicyOptions: {a: 'true', b: '8'}",
		"--memory-manager-policy=Static --reserved-memory='0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=2Gi' --reserved-memory=2:memory=1Gi":                                                               "{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-1Gi: 2Gi}}, {numaNode: 1, limits: {memory: 2Gi}}, {numaNode: 2, limits: {memory: 1Gi}}]}",
		"--eviction-hard=memory.available<200Mi,nodefs.available<10%":                                                                                                                                 "evictionHard: {memory.available: 200Mi, nodefs.available: 10%}",
		"--feature-gates=A=true,B=false --feature-gates C=true":                                                                                                                                       "featureGates: {A: true, B: false, C: true}",
		"--enforce-node-allocatable=pods,system-reserved":                                                                                                                                             "enforceNodeAllocatable: [pods, system-reserved]",
		"kubelet\x00--pods-per-core=4\x00--rotate-certificates\x00":                                                                                                                                   "podsPerCore: 4",
		"--reserved-cpus=0 --reserved-cpus=1":                                                                                                                                                         "reservedSystemCPUs: '1'",
		"/usr/bin/kubelet":                                                                                                                                                                            "{}",
		"# none\nKUBELET_EXTRA_ARGS=":                                                                                                                                                                 "{}",
		"":                                                                                                                                                                                            "{}",
		"\ufeff--cpu-manager-policy=static":                                                                                                                                                           "cpuManagerPolicy: static",
		`time="2024-01-01T00:00:00Z" level=info msg="Running kubelet --max-pods=8"` + "\n" + `Jan 01 n1 k3s[7]: time="x" msg="Running kubelet --max-pods=9 --node-labels=\"a=b\" --v=2"` + "\ntime=x msg=other\n": "maxPods: 9",
		"--v=2": "{}",
		"root 7 0.1 ? Ssl Nov20 1:02 /usr/bin/node-agent --max-pods=3\nroot 8 3.1 ? Ssl Nov20 391:12 /usr/bin/kubelet --max-pods=9\nroot 9 0.0 pts/0 S+ 0:00 grep --color=auto kubelet\n": "maxPods: 9",
		"   CGroup: /system.slice/kubelet.service\n           ├─8 /usr/bin/kubelet --max-pods=9\n           └─9 /usr/bin/helper --max-pods=3\n":                                           "maxPods: 9",
		"8 kubelet --max-pods=9\n9 kubelet --max-pods=9\n": "maxPods: 9",
		"KUBELET_ARGS=\"--max-pods=8 --reserved-cpus=0\"\nKUBELET_ARGS=\"$KUBELET_ARGS --reserved-cpus=1\"\nKUBELET_ARGS+=\" --max-pods=9\"": "{maxPods: 9, reservedSystemCPUs: '1'}",
		"KUBELET_ARGS=\nKUBELET_ARGS=--max-pods=9":                                                                           "maxPods: 9",
		"ExecStart=/usr/bin/kubelet --node-ip $NODE_IP \\\n  # why\n  --max-pods 9":                                          "maxPods: 9",
		"ExecStart={ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet --max-pods=9 ; ignore_errors=no ; pid=8 ; status=0/0 }": "maxPods: 9",
		"--cpu_manager_policy=static --reserved_cpus 0":                                                                      "{cpuManagerPolicy: static, reservedSystemCPUs: '0'}",
	} {
		f, err := readFlags(text, placement.V137)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var object any
		if err := yaml.Unmarshal([]byte(want), &object); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(f.object)
		if b, _ := json.Marshal(object); string(a) != string(b) {
			t.Errorf("%q: %s, want %s", text, a, b)
		}
	}
}

func TestFlagsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"--reserved-cpu=0": `flags of the kubelet: --reserved-cpu: "0": want a flag of the kubelet (did you mean "reserved-cpus"?)`,
		"8 kubelet --max-pods=9\n9 kubelet --max-pods=8":                         `command line: "kubelet --max-pods=8": want only one kubelet, but an earlier line has other flags`,
		"ExecStart=/bin/kubelet --v=2\nExecStart=\nExecStart=/bin/kubelet --v=3": `want only one kubelet, but an earlier line has other flags`,
		"KUBELET_ARGS=--max-pods=9\nKUBELET_ARGS=--v=2":                          `KUBELET_ARGS: "--v=2": want one value, but an earlier line has "--max-pods=9"; or the command line as ps prints it`,
		"KUBELET_ARGS=--max-pods=9\nKUBELET_ARGS=":                               `KUBELET_ARGS: "": want one value`,
		"kubelet --max-pods $MAX_PODS":                                           `--max-pods: "$MAX_PODS": want a whole number`,
		"--color=auto":                                                           `--color: "auto": want a flag of the kubelet`,
		"--reserved-cpus":                                                        `--reserved-cpus: "": want a value`,
		"--reserved-cpus --v=2":                                                  `--reserved-cpus: "": want a value`,
		"cpu-manager-policy=static":                                              `command line: "cpu-manager-policy=static": want --cpu-manager-policy=static`,
		"reserved-cpus=0 --v=2":                                                  `command line: "reserved-cpus=0": want --reserved-cpus=0`,
		"X=--v=2\nreserved-cpus=0":                                               `command line: "reserved-cpus=0": want --reserved-cpus=0`,
		"cpu-manager-policy static":                                              `command line: "cpu-manager-policy static": want flags`,
		`{"kind": "x"}`:                                                          `want flags, --name=value`,
		"\u2013cpu-manager-policy=static --v=2":                                  "command line: \"\u2013cpu-manager-policy=static\": want --cpu-manager-policy=static",
		"kubelet \u2014version --v=2":                                            "command line: \"\u2014version\": want --version",
		"--v=2 \u2212-reserved-cpus=0":                                           "want --reserved-cpus=0",
		"-cpu-manager-policy=static":                                             `command line: "-cpu-manager-policy=static": want --cpu-manager-policy=static`,
		"--v=2 static":                                                           `command line: "static": want a flag`,
		"--max-pods=many":                                                        `--max-pods: "many": want a whole number`,
		"--kube-reserved=cpu":                                                    `--kube-reserved: "cpu": want name=value`,
		"--eviction-hard=memory.available=1":                                     `--eviction-hard: "memory.available=1": want name<value`,
		"--experimental-allocatable-ignore-eviction=2":                           `--experimental-allocatable-ignore-eviction: "2": want true or false`,
		"--feature-gates=A=yes":                                                  `--feature-gates: "A=yes": want true or false`,
		"--reserved-memory=memory=1Gi":                                           `--reserved-memory: "memory=1Gi": want NUMA:RESOURCE=AMOUNT`,
		"--cpu-manager-policy-options=a=1,b=2":                                   `--cpu-manager-policy-options: "a=1,b=2": want one option`,
		"ExecStart=/usr/bin/kubelet $KUBELET_EXTRA_ARGS --v=2":                   `$KUBELET_EXTRA_ARGS: "": want its value too`,
	} {
		if f, err := readFlags(text, placement.V137); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, error %v, want %s", text, f, err, want)
		}
	}
}

// TestForms: all forms of the same configuration have the same meaning. The answer comes from
// OpenShift's kubelet, which runs with gates that Kubernetes does not have.
func TestForms(t *testing.T) {
	const conf = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubelet-config}\ndata:\n  kubelet: |\n    " + strings.ReplaceAll(conf, "\n", "\n    ") + "\n"
	const answer = `{"kubeletconfig":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0","evictionHard":{"memory.available":"100Mi"},"aFieldOfLater":1,"featureGates":{"AzureWorkloadIdentity":true}}}`
	fileless := map[string]bool{"flags": true, "a process": true, "a log of k3s": true, "a list": true, "args": true, "quoted": true, "items": true} // no default threshold
	for name, text := range map[string]string{
		"bare": conf, "JSON": `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}`,
		"ConfigMap": configMap, "another key": strings.Replace(configMap, "kubelet: |", "config.yaml: |", 1),
		"answer": answer, "answer, as YAML": "kubeletconfig:\n  cpuManagerPolicy: static\n  reservedSystemCPUs: \"0\"\n  evictionHard: {memory.available: 100Mi}\n",
		"flags":          "--cpu-manager-policy=static --reserved-cpus=0",
		"a process":      "/usr/bin/kubelet\x00--cpu-manager-policy=static\x00--reserved-cpus=0\x00",
		"a log of k3s":   `time="2024-01-01T00:00:00Z" level=info msg="Running kubelet --cpu-manager-policy=static --reserved-cpus=0"` + "\n",
		"a list":         `["kubelet", "--cpu-manager-policy=static", "--reserved-cpus=0"]`,
		"args":           "args: [ '--cpu-manager-policy=static',\n  '--reserved-cpus', '0' ]\n",
		"quoted":         "\"--cpu-manager-policy=static\",\n\"--reserved-cpus=0\",\n",
		"items":          "- --cpu-manager-policy=static\n- --reserved-cpus=0\n",
		"kubeadm's file": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration:\n  kubeletExtraArgs: [{name: cpu-manager-policy, value: static}]\n---\n" + strings.Replace(conf, "cpuManagerPolicy: static", "cpuManagerPolicy: none", 1) + "---\nkind: KubeProxyConfiguration\n",
		"an older one":   strings.Replace(conf, "\"0\"", "\"1\"", 1) + "---\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: {reserved-cpus: \"0\"}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			writeFile(t, file, text)
			c, err := Files{File: file, Strict: true}.Read()
			eviction := "100Mi"
			if fileless[name] {
				eviction = ""
			}
			if err != nil || c.CPUManagerPolicy != "static" || c.ReservedSystemCPUs != "0" || c.EvictionHard["memory.available"] != eviction || c.EvictionHard == nil || len(c.FeatureGates) > 0 {
				t.Errorf("%v: %+v", err, c)
			}
		})
	}
	for name, c := range map[string]struct{ text, flags, dir, want string }{
		"empty":                  {" \n", "", "", `want kubelet.config.k8s.io/v1beta1, KubeletConfiguration; the text is empty`},
		"Markdown":               {"```yaml\n" + conf + "```\n", "", "", "; line 1 is a fence of Markdown: want only the text inside"},
		"a table":                {"| a | b |\n|---|---|\n", "", "", "; line 1 is a row of a table"},
		"a template":             {strings.Replace(conf, "static", "{{ .policy }}", 1), "", "", "; line 3 has {{ of a template"},
		"lstopo":                 {"Machine (63GB total)\n  Package L#0\n", "", "", "this is the output of lstopo: want a KubeletConfiguration"},
		"cpuinfo":                {"processor\t: 0\nmodel\t: 7\n\nprocessor\t: 1\n", "", "", "this is /proc/cpuinfo: want a KubeletConfiguration"},
		"half a list":            {`["--cpu-manager-policy=static", `, "", "", "want"},
		"lscpu":                  {"Architecture: x86_64\nCPU(s): 8\n", "", "", "this is the output of lscpu: want a KubeletConfiguration, kubeadm's ConfigMap"},
		"another kind":           {"apiVersion: v1\nkind: Pod\n", "", "", `kind: "Pod": want a KubeletConfiguration`},
		"OpenShift's":            {"apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nspec: {}\n", "", "", "this is a KubeletConfig of OpenShift, which has only a part of the kubelet's configuration: want the answer"},
		"k3s's":                  {"token: secret\nkubelet-arg:\n- cpu-manager-policy=static\n", "", "", "this is a configuration of k3s or RKE2, which"},
		"a product's, second":    {"kind: InitConfiguration\n---\napiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\n", "", "", "this is an object of kOps, which"},
		"k3s's flags":            {conf, "--kubelet-arg=cpu-manager-policy=static", "", "flags of the kubelet: this is a configuration of k3s or RKE2, which"},
		"the kubelet's log":      {"I1129 10:00:00.0 8 flags.go:64] FLAG: --cpu-manager-policy=\"none\"\n", "", "", "this is a kubelet's log, which does not distinguish defaults from flags that were set: want the kubelet's command line"},
		"its configuration":      {"I1129 10:00:00.0 8 server.go:300] \"Effective KubeletConfiguration\" config=<\n\tkind: KubeletConfiguration\n >\n", "", "", "effective configuration: want only that configuration, as YAML or JSON without the text of the log, or the answer"},
		"a process, with a file": {"kubelet\x00--config=/c\x00", "", "", "give it with --kubelet-config, and the flags with --kubelet-flags"},
		"a description":          {"Name:   n1\nRoles:  <none>\n", "", "", "this is the output of kubectl describe: want a KubeletConfiguration"},
		"flags of its log":       {conf, "I1129 10:00:00.0 8 flags.go:64] FLAG: --cpu-manager-policy=\"none\"\n", "", "this is a kubelet's log"},
		"kubectl's table":        {"NAME   STATUS\nn1     Ready\n", "", "", "this is a table of kubectl: want a KubeletConfiguration"},
		"a list":                 {"- cpuManagerPolicy: static\n", "", "", "array: want an object: want a KubeletConfiguration"},
		"empty ConfigMap":        {"kind: ConfigMap\ndata: {a: b}\n", "", "", `ConfigMap: keys of data: "a": want the key kubelet, as in kubeadm's ConfigMap kubelet-config`},
		"misspelt in it":         {strings.Replace(configMap, "reservedSystemCPUs", "reservedCpus", 1), "", "", `data.kubelet: KubeletConfiguration: reservedCpus: "0": want a known field (did you mean "reservedSystemCPUs"?)`},
		"misspelt":               {strings.Replace(conf, "reservedSystemCPUs", "reservedCpus", 1), "", "", `reservedCpus: "0": want a known field (did you mean "reservedSystemCPUs"?)`},
		"a product's, in it":     {"kind: ConfigMap\ndata:\n  tuning: |\n    apiVersion: performance.openshift.io/v2\n    kind: PerformanceProfile\n", "", "", "data.tuning: this is a PerformanceProfile of OpenShift, which"},
		"a text for kubeadm":     {conf + "---\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: --reserved-cpus=1}\n", "", "", `JoinConfiguration: nodeRegistration: kubeletExtraArgs: "\"--reserved-cpus=1\"": want a list of objects with name and value`},
		"texts for kubeadm":      {conf + "---\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: [reserved-cpus=1]}\n", "", "", `kubeletExtraArgs: "\"reserved-cpus=1\"": want a list`},
		"flags of kubeadm":       {"kind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: {cpu-manager-policy: static}}\n", "", "", "this has only kubeletExtraArgs of kubeadm, which are a part of the kubelet's configuration: append the KubeletConfiguration"},
		"two nodes of kubeadm":   {conf + "---\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: {v: \"2\"}}\n---\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArgs: {v: \"3\"}}\n", "", "", "JoinConfiguration: kubeletExtraArgs differ"},
		"two":                    {conf + "---\n" + conf, "", "", "two configurations"},
		"none":                   {"kind: ClusterConfiguration\n", "", "", "no KubeletConfiguration in it"},
		"flags over files":       {"--config=/var/lib/kubelet/config.yaml --v=2", "", "", `--config: "/var/lib/kubelet/config.yaml": want that file too: give it with --kubelet-config, and the flags with --kubelet-flags`},
		"flags over drop-ins":    {conf, "--config=x --config-dir=/d", "", `--config-dir: "/d": want that directory too`},
		"answer and flags":       {answer, "--reserved-cpus=1", "", "which includes flags: leave out the flags"},
		"answer and drop-ins":    {answer, "", "d", "which already includes the drop-ins: do not give"},
		"no object":              {`{"kubeletconfig": 5}`, "", "", "want an object, as in a kubelet's answer"},
		"null":                   {"kubeletconfig:\n", "", "", "kubeletconfig: it is empty: want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			writeFile(t, file, c.text)
			files := Files{File: file, Flags: c.flags, Strict: true}
			if c.dir != "" {
				files.Dir = dir
			}
			if got, err := files.Read(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s; %+v", err, c.want, got)
			}
		})
	}
}

// TestFlagsOverFile: flags have priority over the file and drop-ins. Feature gates are merged.
func TestFlagsOverFile(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	dir := t.TempDir()
	file, drops := filepath.Join(dir, "file"), filepath.Join(dir, "d")
	writeFile(t, file, head+"cpuManagerPolicy: none\nkubeReserved: {cpu: 100m, memory: 1Gi}\nfeatureGates: {A: true, B: true}\nmaxPods: 5\n")
	writeFile(t, filepath.Join(drops, "1.conf"), head+"reservedSystemCPUs: \"3\"\n")
	flags := "--config=/x --config-dir=/y --cpu-manager-policy=static --reserved-cpus=0 --kube-reserved=cpu=1 --feature-gates=B=false"
	for _, at := range []string{"", drops} {
		if at == "" {
			flags = strings.Replace(flags, "--config-dir=/y ", "", 1)
		}
		c, err := Files{File: file, Dir: at, Flags: flags, Strict: true}.Read()
		if err != nil {
			t.Fatal(err)
		}
		if c.CPUManagerPolicy != "static" || c.ReservedSystemCPUs != "0" || len(c.KubeReserved) != 1 || c.KubeReserved["cpu"] != "1" || !c.FeatureGates["A"] || c.FeatureGates["B"] || c.MaxPods != 5 {
			t.Errorf("%+v", c)
		}
	}
	if c, err := (Files{Flags: "--max-pods=7", Strict: true}).Read(); err != nil || c.MaxPods != 7 || c.EvictionHard == nil || len(c.EvictionHard) > 0 { // only a file has a default threshold
		t.Errorf("flags alone: %+v, %v", c, err)
	}
	if _, err := (Files{File: file}).Read(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("--max-pods=7"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := (Files{File: file}).Read(); err == nil {
		t.Errorf("an agent's file is a file: %+v", c)
	}
}

// TestFlagsOfRelease: a flag that the release does not have stops the kubelet.
func TestFlagsOfRelease(t *testing.T) {
	for _, c := range []struct {
		flag  string
		last  placement.Version // 0: no supported release has it
		value string
	}{
		{"container-runtime", 0, "remote"}, {"pod-infra-container-image", placement.V134, "pause"}, {"network-plugin", 0, "cni"}, {"cni-bin-dir", 0, "/b"},
		{"cni-conf-dir", 0, "/c"}, {"network-plugin-mtu", 0, "9"}, {"logtostderr", 0, "true"}, {"alsologtostderr", 0, "true"}, {"log-dir", 0, "/l"},
		{"allow-privileged", 0, "true"}, {"windows-service", 0, "true"}, {"cloud-config", placement.V133, "/c"}, {"register-schedulable", placement.V133, "false"},
		{"containerd", placement.V136, "/run/k3s/containerd/containerd.sock"}, {"containerd-namespace", placement.V136, "k8s.io"},
		{"storage_driver_db", placement.V136, "cadvisor"}, {"machine-id-file", placement.V136, "/m"}, {"housekeeping-interval", placement.V137, "10s"},
		{"node-ip", placement.V137, "::1"},
	} {
		for v := placement.V133; v <= placement.V137; v++ {
			_, err := readFlags("kubelet --"+c.flag+"="+c.value+" --reserved-cpus=0", v)
			if c.last >= v && err != nil {
				t.Errorf("1.%d: --%s: %v", v, c.flag, err)
			}
			if want := fmt.Sprintf(`want no such flag: kubelet 1.%d on Linux does not know it`, v); c.last < v && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("1.%d: --%s: %v, want %s", v, c.flag, err, want)
			}
		}
	}
}

func FuzzForms(f *testing.F) {
	for _, text := range []string{
		"--reserved-cpus=0-1 --kube-reserved=cpu=1", "KUBELET_EXTRA_ARGS=\"--v=2 --reserved-memory=0:memory=1Gi;1:memory=2Gi\"", `{"kubeletconfig":{"maxPods":5}}`,
		"kind: ConfigMap\ndata: {kubelet: 'kind: KubeletConfiguration'}", "kind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: [{name: a}]}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := Files{Strict: true}.read("x", text)
		if err == nil && g.object == nil {
			t.Error("neither a configuration nor an error")
		}
		if err == nil && g.flags != nil {
			g.flags.over(g.object)
		}
	})
}
