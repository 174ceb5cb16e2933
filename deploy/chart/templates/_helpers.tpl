{{- define "nvshare.labels" -}}
app.kubernetes.io/name: nvshare
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "nvshare.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Common to both pods: node selection and priority. */ -}}
{{- define "nvshare.placement" -}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Root, because the host directories belong to root; no capabilities; nothing else is writable. */ -}}
{{- define "nvshare.securityContext" -}}
runAsUser: 0
runAsGroup: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* Combinations that the schema cannot check. Each message names the remedy. */ -}}
{{- define "nvshare.validate" -}}
{{- if and (eq .Values.coexist.mode "reserve") (eq .Values.devicePlugin.resourceName "nvidia.com/gpu") }}
{{- fail "coexist.mode=reserve requests nvidia.com/gpu from NVIDIA's plugin, so devicePlugin.resourceName must be another name (nvshare.com/gpu)" }}
{{- end }}
{{- if and (eq .Values.coexist.mode "reserve") (ne (toString .Values.devicePlugin.gpus) "all") }}
{{- fail "coexist.mode=reserve offers the cards that it gets from NVIDIA's plugin: leave devicePlugin.gpus at all and set coexist.gpus" }}
{{- end }}
{{- if and .Values.devicePlugin.enabled .Values.draDriver.enabled (or (eq (toString .Values.devicePlugin.gpus) "all") (eq (toString .Values.draDriver.gpus) "all")) }}
{{- fail "devicePlugin and draDriver must not offer the same GPUs: set devicePlugin.enabled=false or draDriver.enabled=false, or divide the GPUs with devicePlugin.gpus and draDriver.gpus" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) }}
{{- fail "metrics.serviceMonitor.enabled needs metrics.enabled=true" }}
{{- end }}
{{- if eq .Values.paths.run .Values.paths.operator }}
{{- fail "paths.operator must not be paths.run: pods get paths.run, and the operator socket must not be in a pod" }}
{{- end }}
{{- if hasPrefix (printf "%s/" .Values.paths.run) .Values.paths.operator }}
{{- fail "paths.operator must not be below paths.run: pods get paths.run, and the operator socket must not be in a pod" }}
{{- end }}
{{- end }}
