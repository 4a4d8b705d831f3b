{{- /* After an upgrade that reuses the values of an earlier release, mode may be missing. */}}
{{- define "berth.mode" -}}
{{ .Values.scheduler.mode | default "schedule" }}
{{- end }}

{{- /* berth.schedules is not empty if the scheduler places pods: it is enabled, and not in shadow mode. */}}
{{- define "berth.schedules" -}}
{{- if and .Values.scheduler.enabled (eq (include "berth.mode" .) "schedule") }}yes{{ end }}
{{- end }}

{{- /* The Lease of Volcano's controller, NAMESPACE/NAME, that the scheduler watches. */}}
{{- define "berth.volcanoLease" -}}
{{ dig "args" "volcanoLease" "" .Values.scheduler | default "volcano-system/vc-controller-manager" }}
{{- end }}

{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* An upgrade cannot change selectors, so they contain no version. */}}
{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* The Kubernetes releases that a scheduler is built from, the oldest first, as a list in JSON. */}}
{{- define "berth.builds" -}}
{{- regexFindAll "[0-9.]+" (.Files.Get "files/schedulers") -1 | toJson }}
{{- end }}

{{- /* The build for this cluster: the newest build that is not newer than the API server, or the oldest build if all are
    newer. A scheduler may be one minor release older than its API server (Kubernetes' version skew policy). */}}
{{- define "berth.build" -}}
{{- $server := int (semver .Capabilities.KubeVersion.Version).Minor }}
{{- $builds := include "berth.builds" . | fromJsonArray }}
{{- $build := first $builds }}
{{- range $builds }}{{ if le (int (semver .).Minor) $server }}{{ $build = . }}{{ end }}{{ end }}
{{- if gt $server (int (add1 (semver $build).Minor)) }}
{{- fail (printf "Kubernetes %s: this chart has schedulers for API servers up to 1.%d: install a release of Berth with a scheduler of Kubernetes 1.%d or 1.%d, or set scheduler.enabled=false" .Capabilities.KubeVersion.Version (add1 (semver $build).Minor) (sub $server 1) $server) }}
{{- end }}
{{- $build }}
{{- end }}

{{- /* The scheduler's image. There is a digest for each build, so that an upgrade of the cluster also changes the digest. */}}
{{- define "berth.schedulerImage" -}}
{{- $builds := include "berth.builds" . | fromJsonArray }}
{{- $build := include "berth.build" . }}
{{- $digests := get (.Values.image.digests | default dict) "scheduler" | default dict }}
{{- if kindIs "string" $digests }}
{{- fail (printf "image.digests.scheduler: %q: want one digest for each build, as in {%q: sha256:...}" $digests $build) }}
{{- end }}
{{- range $name, $_ := $digests }}{{ if not (has $name $builds) }}
{{- fail (printf "image.digests.scheduler: %q: want some of %s" $name (join ", " $builds)) }}
{{- end }}{{ end }}
{{- $digest := get $digests $build }}
{{- if and (not $digest) (compact (values $digests)) }}
{{- fail (printf "image.digests.scheduler: no digest of build %s, which Kubernetes %s needs" $build .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- include "berth.image" (dict "root" . "name" "berth-scheduler" "digest" $digest "build" (printf "-k8s%s" $build)) }}
{{- end }}

{{- /* name is the image's name, and component its key in image.digests. For the scheduler, the caller sets digest and build
    instead of component. */}}
{{- define "berth.image" -}}
{{- $i := .root.Values.image }}
{{- $repository := required "image.repository: there is no public registry of these images: give the registry and folder to which `make push` copied the images, as in registry.example/berth" $i.repository }}
{{- $image := printf "%s/%s" (trimSuffix "/" $repository) .name }}
{{- with .digest | default (get ($i.digests | default dict) (default "" .component)) }}{{ $image }}@{{ . }}{{ else }}{{ $image }}:{{ $i.tag | default .root.Chart.AppVersion }}{{ default "" .build }}{{ end }}
{{- end }}

{{- /* The documents of a plain manifest, with this release's labels. */}}
{{- define "berth.manifest" -}}
{{- $root := .root }}
{{- $annotations := .annotations | default dict }}
{{- range $text := regexSplit "(?m)^---$" .text -1 }}
{{- $object := fromYaml $text }}
{{- if hasKey $object "Error" }}{{ fail (printf "manifest: %s" $object.Error) }}{{ end }}
{{- if $object }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) (include "berth.labels" $root | fromYaml)) }}
{{- if and (eq $object.kind "ServiceAccount") (hasPrefix "berth-" $object.metadata.name) }}
{{- $of := index $root.Values (trimPrefix "berth-" $object.metadata.name) }}
{{- with $of.serviceAccount.annotations }}{{ $_ := set $object.metadata "annotations" . }}{{ end }}
{{- end }}
{{- if $annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) ($object.metadata.annotations | default dict) $annotations) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the agent's pod mounts of the kubelet's files, as JSON. folders are the directories of the kubelet's configuration
    outside of rootDir. hidden are the directories of agent.kubelet.hide that would be seen. */}}
{{- define "berth.kubeletFiles" -}}
{{- $k := .Values.agent.kubelet }}
{{- $folders := list }}
{{- if eq $k.configSource "file" }}
{{- range compact (list (dir $k.configFile) $k.configDropInDir) }}
{{- if not (hasPrefix (printf "%s/" $k.rootDir) (printf "%s/" .)) }}{{ $folders = append $folders . }}{{ end }}
{{- end }}
{{- end }}
{{- $hidden := list }}
{{- range $name := $k.hide }}
{{- $path := ternary $name (printf "%s/%s" $k.rootDir $name) (isAbs $name) }}
{{- range prepend $folders $k.rootDir }}{{ if hasPrefix (printf "%s/" .) $path }}{{ $hidden = append $hidden $path }}{{ end }}{{ end }}
{{- end }}
{{- dict "folders" (uniq $folders) "hidden" (uniq $hidden) | toJson }}
{{- end }}

{{- define "berth.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "berth.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* The seconds of a duration like 1m30s, in the format that the schema allows. */}}
{{- define "berth.seconds" -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 }}
{{- $sum := 0.0 }}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get $units $unit)) }}
{{- end }}
{{- $sum }}
{{- end }}

{{- /* In CEL, after a list of tolerations: reports whether one of them is of the pool's taint. */}}
{{- define "berth.toleratesPool" -}}
exists(t, t.?key.orValue('') == '{{ .Values.pool.taint }}' && t.?effect.orValue('') in ['', 'NoSchedule'])
{{- end }}

{{- /* A quantity like 500m or 2Gi as a number, in the format that the schema allows. */}}
{{- define "berth.quantity" -}}
{{- $unit := regexFind "[A-Za-z]*$" . }}
{{- $units := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 }}
{{- mulf (trimSuffix $unit . | float64) (get $units $unit) }}
{{- end }}

{{/* berth.onlyFrom is the NetworkPolicy of a component: only these peers may connect, and only to its port. */}}
{{- define "berth.onlyFrom" -}}
{{- if .policy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: berth-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "berth.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  podSelector:
    matchLabels: {{- include "berth.selector" (dict "root" .root "component" .component) | nindent 6 }}
  policyTypes: [Ingress]
  {{- with .policy.from }}
  ingress:
  - ports: [{port: {{ $.port }}, protocol: TCP}]
    from: {{- toYaml . | nindent 4 }}
  {{- else }}
  ingress: []
  {{- end }}
{{- end }}
{{- end }}
