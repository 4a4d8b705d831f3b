package pasted

import (
	"errors"
	"testing"
)

func TestWhat(t *testing.T) {
	for text, want := range map[string]Form{
		"":                                      Unknown,
		"To be or not to be":                    Unknown,
		"package:2 numa:1 core:4 pu:2 mem:64Gi": Unknown,
		"Architecture: x86_64\nCPU(s):   8\n":   Lscpu,
		"Architecture:  x86_64\n  CPU op-mode(s): 64-bit\nCPU(s): 8\n":                     Lscpu,
		`{"lscpu": [{"field": "CPU(s):", "data": "8"}]}`:                                   LscpuJSON,
		`{"cpus": [{"cpu": 0},]}`:                                                          LscpuExtendedJSON,
		` {"cpus": [{"cpu": 0}]}`:                                                          LscpuExtendedJSON,
		"CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n  0    0":                              LscpuExtended,
		"# The following is the parsable format\n# CPU,Core,Socket,Node,,L1d\n0,0,0,0,,0":  LscpuParsable,
		"0,0,0,0,,0,0,0,0\r\n1,1,0,0,,1,1,1,0\r\n":                                         Lscpu,
		"# CPU NODE SOCKET CORE\n# 0 0 0 0\n":                                              Lscpu,
		"0,1,2,3\n":                                                                        Unknown,
		"# CPU\n0\n":                                                                       LscpuParsable,
		"available: 2 nodes (0-1)\nnode 0 cpus: 0 1":                                       Numactl,
		"node 0 cpus: 0 1\nnode 0 size: 5 MB":                                              Numactl,
		"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0":                NvidiaTopology,
		"\x1b[4m\tGPU0\tCPU Affinity\x1b[0m\nGPU0\t X \t0-7":                               NvidiaTopology,
		`{"kubeletconfig":{"cpuManagerPolicy":"static"}}`:                                  KubeletAnswer,
		"kubeletconfig:\n  cpuManagerPolicy: static\n":                                     KubeletAnswer,
		"apiVersion: x\nkind: KubeletConfiguration\n":                                      KubeletConfig,
		`{"kind": "KubeletConfiguration"}`:                                                 KubeletConfig,
		"apiVersion: v1\nkind: ConfigMap\ndata: {kubelet: --x}":                            KubernetesObject,
		`{"kind": "ConfigMap"}`:                                                            KubernetesObject,
		`{"a": 1}`:                                                                         Unknown,
		"cpuManagerPolicy: static\n":                                                       Unknown,
		"policy: default\npreferred node: current\nphyscpubind: 0 1\n":                     NumactlShow,
		"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n":                                     NvidiaSMI,
		"+-----+\n| NVIDIA-SMI 550.54.15   CUDA Version: 12.4 |\n":                         NvidiaSMI,
		"processor\t: 0\nvendor_id\t: GenuineIntel\n":                                      CPUInfo,
		"Machine (63GB total)\n  Package L#0\n":                                            Lstopo,
		"depth 0:           1 Machine (type #0)\n depth 1:          2 Package (type #1)\n": Lstopo,
		"Package:2 [NUMANode(memory=64)] L3Cache:1(size=33554432) Core:16 PU:2\n":          Lstopo,
		"NAME ONE-SIZE ALL-SIZE WAYS TYPE\nL1d 32K 1M 8 Data\n":                            LscpuCaches,
		"NUMANode:2 Package:1 Core:4 PU:2":                                                 Lstopo,
		"<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology>":   Lstopo,
		`["--cpu-manager-policy=static","--v=2"]`:                                          KubeletFlags,
		"--reserved-cpus=0-1":                                                              KubeletFlags,
		`KUBELET_EXTRA_ARGS="--reserved-cpus=0"`:                                           KubeletFlags,
		"KUBELET_EXTRA_ARGS=--reserved-cpus=0":                                             KubeletFlags,
		"root 812 1.0 /usr/bin/kubelet --config=/a/b --v=2":                                KubeletFlags,
		"# a comment\nKUBELET_KUBEADM_ARGS='--pod-infra-container-image=x --max-pods 9'":   KubeletFlags,
		"I1129 10:00:00.000000     812 flags.go:64] FLAG: --v=\"2\"\n":                     KubeletLog,
		"I1 8 server.go:300] \"Effective KubeletConfiguration\" config=<\n\tkind: K\n >":   EffectiveConfig,
		"/usr/bin/kubelet\x00--v=2\x00":                                                    KubeletFlags,
		"/usr/bin/kubelet\x00--runonce\x00":                                                KubeletFlags,
		"Name:         a\nNamespace:    default\nPriority:     0\n":                        Description,
		"LAST SEEN   TYPE      REASON\n2m          Warning   x\n":                          Table,
		"NAMESPACE   NAME   READY\nx  y  1/1\n":                                            Table,
		"kind: KubeletConfiguration\ncpuCfsQuota: true\n":                                  KubeletConfig,
		`{"kind": "KubeletConfiguration", "imageGcLowThreshold": 70}`:                      KubeletConfig,
		"apiVersion: example.org/v1\nkind: Machine\n":                                      KubernetesObject,
		"metadata: {name: a}\nspec: {containers: [{args: [--kubelet-extra-args]}]}":        KubernetesObject,
		"kind: Pod\nspec: {containers: [{args: [--kubelet-extra-args, --v=2]}]}":           KubernetesObject,
		"kind: Pod\nspec:\n  a: /etc/eks/bootstrap.sh x --kubelet-arg=v=2\n":               KubernetesObject,
		"kind: ConfigMap\ndata:\n  a: |\n    resource \"x\" {\n    [settings.kube]":        KubernetesObject,
		"spec:\n  machine: a\n  settings: b\n  apiVersion: kops.k8s.io/v1":                 Unknown,
	} {
		for _, text := range []string{text, "\ufeff" + text} { // with a byte order mark
			if got := What([]byte(text)); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}

func TestProducts(t *testing.T) {
	for text, want := range map[string]Form{
		"MIME-Version: 1.0\n\n--X\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n":  "user data of a machine",
		"#cloud-config\nwrite_files: []\n":                                                   "user data of a machine",
		"#!/bin/bash\nset -o xtrace\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--v=2'\n": "user data of a machine",
		"---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n":                         "a NodeConfig of EKS",
		`{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}`:                      "a NodeConfig of EKS",
		"kind: ClusterConfig\napiVersion: \"eksctl.io/v1alpha5\"\n":                          "a file of eksctl",
		"apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\n":                             "an object of Karpenter",
		"kind: EC2NodeClass\nuserData: --kubelet-extra-args x\napiVersion: karpenter.sh/v1":  "an object of Karpenter",
		`{"cpuManagerPolicy": "static", "cpuCfsQuotaPeriod": "200ms"}`:                       "a kubelet configuration of AKS",
		`{"vmSize": "Standard_D4s_v5", "kubeletConfig": {}}`:                                 "a kubelet configuration of AKS",
		"linuxConfig: {}\nkubeletConfig:\n  cpuManagerPolicy: static\n":                      "a system configuration of GKE",
		"kind: KubeletConfig\r\nspec: {}\r\n":                                                "a KubeletConfig of OpenShift",
		"apiVersion: performance.openshift.io/v2\nkind: X\n":                                 "a PerformanceProfile of OpenShift",
		"apiVersion: machineconfiguration.openshift.io/v1\nkind: X\n":                        "a MachineConfig of OpenShift",
		"apiVersion: provisioning.cattle.io/v1\nkind: Cluster\n":                             "an object of Rancher",
		"token: x\nkubelet-arg+:\n- v=2\n":                                                   "a configuration of k3s or RKE2",
		"ExecStart=/usr/local/bin/k3s \\\n\t'--kubelet-arg=v=2' \\\n":                        "a configuration of k3s or RKE2",
		"services:\r\n  etcd: {}\r\n  kubelet:\r\n    extra_args: {}\r\n":                    "a cluster.yml of RKE",
		"machine:\n  kubelet:\n    extraConfig: {}\n":                                        "a machine configuration of Talos",
		"[settings.kubernetes]\ncpu-manager-policy = \"static\"\n":                           "a settings file of Bottlerocket",
		"settings.kubernetes.cpu-manager-policy = \"static\"\n":                              "a settings file of Bottlerocket",
		`{"settings": {"kubernetes": {}}}`:                                                   "a settings file of Bottlerocket",
		"apiVersion: kops.k8s.io/v1alpha2\nkind: Cluster\n":                                  "an object of kOps",
		"kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n":                                "a configuration of kind",
		"apiVersion: bootstrap.cluster.x-k8s.io/v1beta1\nkind: X\n":                          "an object of Cluster API",
		"apiVersion: k0s.k0sproject.io/v1beta1\nkind: ClusterConfig\n":                       "a configuration of k0s",
		"minikube start --extra-config=kubelet.cpu-manager-policy=static\n":                  "a command of minikube",
		"juju config kubernetes-worker kubelet-extra-args=\"cpu-manager-policy=static\"\n":   "a setting of Charmed Kubernetes",
		"kubelet-extra-config: \"{cpuManagerPolicy: static}\"\n":                             "a setting of Charmed Kubernetes",
		"kubelet_cpu_manager_policy: static\n":                                               "a variables file of Kubespray",
		"resource \"google_container_node_pool\" \"x\" {\n":                                  "a configuration of Terraform",
		"  kubelet_config {\n    cpu_manager_policy = \"static\"\n  }\n":                     "a configuration of Terraform",
	} {
		if got := What([]byte(text)); got != want || !got.IsProduct() {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, form := range []Form{Unknown, Lscpu, KubeletConfig, KubernetesObject} {
		if form.IsProduct() {
			t.Errorf("%q is no product", form)
		}
	}
}

func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Pod":                            "wrong",
		"":                                     "wrong; the text is empty",
		"\ufeff \n":                            "wrong; the text is empty",
		"```yaml\nkind: Pod\n```":              "wrong; line 1 is a fence of Markdown: want only the text inside of the fences",
		"Here:\n\n  ~~~\nkind: Pod":            "wrong; line 3 is a fence of Markdown: want only the text inside of the fences",
		"a\n| field | value |\n|---|---|\n":    "wrong; line 2 is a row of a table: want the file itself",
		"kind: Pod\nname: {{ .Values.name }}":  "wrong; line 2 has {{ of a template: want the result, as helm template prints it",
		"kind:\u00a0Pod":                       "wrong; line 1 has a no-break space (U+00A0): want a space",
		"\xff\xfek\x00":                        "wrong; the text is in UTF-16, which Windows PowerShell writes: want UTF-8",
		"\x1f\x8b\x08\x00":                     "wrong; it is compressed with gzip: decompress it first",
		"cpu: \u201c2\u201d":                   "wrong; line 1 has typographic quotes: want plain ones",
		"spec:\n\tcpu: 2":                      "wrong; line 2 is indented with a tab: want spaces, as in YAML",
		"a: b\n<<<<<<< HEAD\n":                 "wrong; line 2 is a mark of a merge conflict: resolve it first",
		"$ kubectl get pod -o yaml\nkind: Pod": "wrong; line 1 is a command after a prompt: want only what it printed",
		"root@node-1:~# cat /a\nkind: Pod":     "wrong; line 1 is a command after a prompt: want only what it printed",
	} {
		if got := Explain(errors.New("wrong"), []byte(text)); got.Error() != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
	if Explain(nil, nil) != nil {
		t.Error("an error where there was none")
	}
}

func FuzzWhat(f *testing.F) {
	f.Add([]byte("CPU NODE\n"))
	f.Add([]byte(`{"cpus": [`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if form := What(text); form == Unknown && form.IsMachine() {
			t.Error("what is unknown is no machine")
		}
	})
}
