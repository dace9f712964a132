{{- define "fastnode.labels" -}}
app.kubernetes.io/name: fastnode
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
