{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* Selectors cannot be changed by an upgrade: no versions in them. */}}
{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "berth.image" -}}
{{ .root.Values.image.repository }}/berth-{{ .component }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
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
{{- if $annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) ($object.metadata.annotations | default dict) $annotations) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
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
