{{- /* The forms of values: path, pattern, and what would be right. They are not in the schema, because Helm's messages show only
    a pattern, or no value at all ('not'), or another value's path (propertyNames). In a path, * stands for every element, and
    @ for every key. With a fourth element, the pattern must not match. */}}
{{- define "berth.forms" }}
{{- $name := "'^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$', 'lower-case letters, digits, - and .'" }}
{{- $duration := "'^([0-9]+([.][0-9]+)?(ms|s|m|h))+$', 'a duration like 30s or 1m30s'" }}
{{- $signed := "'^-?([0-9]+([.][0-9]+)?(ms|s|m|h))+$', 'a duration like 30s, or a negative duration like -1s'" }}
{{- $digest := "'^(sha256:[0-9a-f]{64})?$', 'sha256: and 64 lower-case hexadecimal digits'" }}
{{- $namespace := "'^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[*])$', 'the name of a namespace, or * for all'" }}
{{- $lease := "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$', 'NAMESPACE/NAME of a Lease'" }}
{{- $path := "'^/[^[:space:]]*[^/[:space:]]$', 'an absolute path without a slash at its end'" }}
{{- $below := "'^(/[A-Za-z0-9_.-]+){2,}$', 'an absolute path of at least two elements, with letters, digits, _, . and -'" }}
{{- $flag := "'^-', 'a flag, like --v=4'" }}
{{- $vendor := "'^[0-9a-f]{4}$', 'four lower-case hexadecimal digits, like 10de'" }}
{{- $amount := "'^[0-9]+([.][0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti|e[+][0-9]+)?$', 'a quantity like 2, 500m or 256Mi'" }}
{{- $count := "'^[0-9]+%?$', 'a number, or a percentage like 10%'" }}
- [image.repository, '^([^[:space:]/:@]+(:[0-9]+/[^[:space:]/:@]+)?(/[^[:space:]/:@]+)*)?$', 'a registry and a folder without a tag, like registry.example/berth']
- [image.digests.scheduler.*, {{ $digest }}]
- [image.digests.agent, {{ $digest }}]
- [image.digests.controller, {{ $digest }}]
- [image.digests.berth, {{ $digest }}]
- [scheduler.name, {{ $name }}]
- [scheduler.args.staleAfter, {{ $duration }}]
- [scheduler.args.settleAfter, {{ $duration }}]
- [scheduler.args.patience, {{ $signed }}]
- [scheduler.args.gangTimeout, {{ $duration }}]
- [scheduler.args.volcanoLease, {{ $lease }}]
- [scheduler.args.admission.keepFor, {{ $signed }}]
- [scheduler.args.candidates, '^(-[0-9]+|1[6-9]|[2-9][0-9]|[0-9]{3,})$', '16 to 1024, or a negative number to leave the search for nodes to kube-scheduler']
- [scheduler.args.exclusiveNamespaces.*, {{ $namespace }}]
- [scheduler.args.protectedNamespaces.*, {{ $namespace }}]
- [scheduler.args.numaAttributes.*, '^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/[A-Za-z_][A-Za-z0-9_]{0,31}$', 'DOMAIN/NAME of an attribute, like resource.example.com/numaNode']
- [scheduler.weights.@, '^(Berth|BerthClaims|BerthTiers|DynamicResources|ImageLocality|InterPodAffinity|NodeAffinity|NodeResourcesBalancedAllocation|NodeResourcesFit|PodTopologySpread|TaintToleration|VolumeBinding)$',
  'Berth, BerthClaims, BerthTiers, DynamicResources, ImageLocality, InterPodAffinity, NodeAffinity, NodeResourcesBalancedAllocation, NodeResourcesFit, PodTopologySpread, TaintToleration or VolumeBinding']
- [scheduler.pluginConfig.*.name, '^Berth$', 'another plugin, because scheduler.args has the arguments of Berth', not]
- [scheduler.pluginConfig.*.name, '^DynamicResources$', 'BerthClaims, which takes the arguments of DynamicResources', not]
- [scheduler.clientConnection.qps, '^[^-]*[1-9]', more than 0]
- [scheduler.extraArgs.*, {{ $flag }}]
- [agent.kubelet.rootDir, {{ $path }}]
- [agent.kubelet.configFile, {{ $path }}]
- [agent.kubelet.configDropInDir, '^(/[^[:space:]]*[^/[:space:]])?$', 'an absolute path without a slash at its end, or nothing']
- [agent.kubelet.hide.*, '^/?[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$', 'a path whose elements begin with a letter, a digit or _, like pods or /var/lib/kubelet/pki']
- [agent.kubelet.hide.*, '(^|/)(device-plugins|pod-resources)$', 'another directory, because the agent reads this one', not]
- [agent.heartbeat, {{ $duration }}]
- [agent.rescan, {{ $duration }}]
- [agent.stateDir, {{ $below }}]
- [agent.rivals.*.program, {{ $name }}]
- [agent.rivals.*.namespace, {{ $name }}]
- [agent.rivals.*.daemonSet, {{ $name }}]
- [agent.rivals.*.serviceAccount, {{ $name }}]
- [agent.enforce.nriSocket, {{ $below }}]
- [agent.enforce.tolerateAnnotation, '^[A-Za-z0-9_./-]+$', 'the key of an annotation, with letters, digits, _, ., / and -']
- [agent.devices.*.resource, '^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$', 'the name of a resource with a domain, like example.com/gpu']
- [agent.devices.*.vendor, {{ $vendor }}]
- [agent.devices.*.product, {{ $vendor }}]
- [agent.devices.*.addresses.*, '^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f][.][0-7]$', 'a PCI address like 0000:3b:00.0']
- [agent.devices.*.cdi.kind, '^[a-zA-Z][a-zA-Z0-9_.-]*/[a-zA-Z][a-zA-Z0-9_-]*$', 'VENDOR/CLASS of CDI, like example.com/gpu']
- [agent.devicePreferences.@, '^[^=,[:space:]]+/[^=,[:space:]]+$', 'the name of a resource with a domain, like nvidia.com/gpu']
- [agent.updateStrategy.maxUnavailable, {{ $count }}]
- [agent.updateStrategy.maxSurge, {{ $count }}]
- [agent.extraArgs.*, {{ $flag }}]
- [controller.volcanoLease, {{ $lease }}]
- [controller.extraArgs.*, {{ $flag }}]
- [monitoring.serviceMonitor.interval, {{ $duration }}]
{{- range $component := list "scheduler" "agent" "map" "controller" }}
- [{{ $component }}.resources.*.*, {{ $amount }}]
{{- end }}
- [pool.taint, '^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$', 'the key of a taint, like berth.dev/pool']
{{- end }}

{{- /* Checks the value at a path against a form. rest are the elements of the form's path below the value. */}}
{{- define "berth.checkForm" }}
{{- $key := first .rest }}
{{- $form := .form }}
{{- $at := .at }}
{{- if not .rest }}
{{- $bad := eq (len $form) 4 }}
{{- if eq (regexMatch (index $form 1) (toString .value)) $bad }}
{{- fail (printf "%s: %q: want %s" $at (toString .value) (index $form 2)) }}
{{- end }}
{{- else if and (kindIs "map" .value) (has $key (list "*" "@")) }}
{{- range $k, $v := .value }}
{{- include "berth.checkForm" (dict "form" $form "at" (ternary $at (printf "%s.%s" $at $k) (eq $key "@")) "value" (ternary $k $v (eq $key "@")) "rest" (rest $.rest)) }}
{{- end }}
{{- else if and (kindIs "slice" .value) (eq $key "*") }}
{{- range $i, $v := .value }}
{{- include "berth.checkForm" (dict "form" $form "at" (printf "%s[%d]" $at $i) "value" $v "rest" (rest $.rest)) }}
{{- end }}
{{- else if kindIs "map" .value }}
{{- if not (kindIs "invalid" (index .value $key)) }}
{{- include "berth.checkForm" (dict "form" $form "at" (trimPrefix "." (printf "%s.%s" $at $key)) "value" (index .value $key) "rest" (rest .rest)) }}
{{- end }}
{{- end }}
{{- end }}
