{{- define "nvshare.labels" -}}
app.kubernetes.io/name: nvshare
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "nvshare.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What both pods have in common: where they run and with what standing. */ -}}
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

{{- /* Root, because the host's directories are root's; without a single capability, and with nothing writable but them. */ -}}
{{- define "nvshare.securityContext" -}}
runAsUser: 0
runAsGroup: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* Combinations that a schema cannot see; each refusal names the remedy. */ -}}
{{- define "nvshare.validate" -}}
{{- if and (eq .Values.coexist.mode "reserve") (eq .Values.devicePlugin.resourceName "nvidia.com/gpu") }}
{{- fail "coexist.mode=reserve asks NVIDIA's plugin for nvidia.com/gpu, so devicePlugin.resourceName must be another name (nvshare.com/gpu)" }}
{{- end }}
{{- if and (eq .Values.coexist.mode "reserve") (ne (toString .Values.devicePlugin.gpus) "all") }}
{{- fail "coexist.mode=reserve offers the cards that NVIDIA's plugin gives us: leave devicePlugin.gpus at all and set coexist.gpus" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) }}
{{- fail "metrics.serviceMonitor.enabled needs metrics.enabled=true" }}
{{- end }}
{{- if eq .Values.paths.run .Values.paths.operator }}
{{- fail "paths.operator must not be paths.run: pods get paths.run, and the operator's socket must stay out of them" }}
{{- end }}
{{- if hasPrefix (printf "%s/" .Values.paths.run) .Values.paths.operator }}
{{- fail "paths.operator must not be below paths.run: pods get paths.run, and the operator's socket must stay out of them" }}
{{- end }}
{{- end }}
