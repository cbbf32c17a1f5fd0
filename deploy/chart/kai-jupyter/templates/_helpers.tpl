{{- define "kai.labels" -}}
app.kubernetes.io/name: kai-jupyter
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "kai.image" -}}
{{ required "image.repository must name an image" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What is the same in every pod of ours: the restricted standard, nothing writable but a folder in memory. */}}
{{- define "kai.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.global.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.global.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10000
  runAsGroup: 10000
  fsGroup: 10000
  seccompProfile: {type: RuntimeDefault}
enableServiceLinks: false
volumes:
  - name: tmp
    emptyDir: {medium: Memory, sizeLimit: 64Mi}
{{- end }}

{{- define "kai.container" -}}
image: {{ include "kai.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [kai]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "kai.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- {name: HOME, value: /tmp}
{{- end }}

{{/* Two replicas stand on two nodes where that is possible. */}}
{{- define "kai.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {app: {{ . }}}}
{{- end }}

{{- define "kai.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 2
  failureThreshold: 90
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  periodSeconds: 2
{{- end }}

{{- define "kai.hook" -}}
clientConfig:
  service: {name: admission, namespace: {{ .root.Release.Namespace }}, path: {{ .path }}, port: 443}
admissionReviewVersions: [v1]
sideEffects: None
timeoutSeconds: 10
failurePolicy: {{ .failure }}
{{- end }}

{{/* Never the namespaces that keep the cluster and us alive. */}}
{{- define "kai.elsewhere" -}}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [kube-system, {{ .Release.Namespace }}, {{ .Values.reservationNamespace.name }}, {{ .Values.scaleAdjustNamespace.name }}]
{{- end }}
