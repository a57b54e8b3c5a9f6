{{/* Parts that several templates share. */}}

{{- define "trimtab.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* A pod's settings that do not depend on what runs in it; takes [root, the part's values]. */}}
{{- define "trimtab.pod" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
securityContext:
  {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $part $key }}
{{ $key }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "trimtab.containerSecurity" -}}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end -}}

{{- define "trimtab.container" -}}
image: {{ include "trimtab.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{/* Options of a service's ports. */}}
{{- define "trimtab.ports" -}}
- --address=0.0.0.0:9000
- --metrics-address=0.0.0.0:9100
- --tls-cert=/tls/tls.crt
- --tls-key=/tls/tls.key
{{- if .Values.access.clientCertificates }}
- --tls-client-ca=/tls/ca.crt
{{- end }}
{{- with .Values.access.tokenAudience }}
- --token-audience={{ . }}
{{- end }}
- --policy=/policy/policy.yaml
{{- end -}}

{{/* What a caller of our services trusts and shows. */}}
{{- define "trimtab.callerEnvironment" -}}
- {name: TRIMTAB_TLS_CA, value: /tls/ca.crt}
- {name: TRIMTAB_TLS_CERT, value: /tls/tls.crt}
- {name: TRIMTAB_TLS_KEY, value: /tls/tls.key}
{{- if .Values.access.tokenAudience }}
- {name: TRIMTAB_TOKEN_FILE, value: /token/token}
{{- end }}
{{- end -}}

{{/* Probes of a service. */}}
{{- define "trimtab.probes" -}}
# The kubelet's gRPC probes speak no TLS, and it has no client certificate.
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: HTTPS}
  periodSeconds: 2
# The port is open once the program is loaded; it is ready when kernels are compiled, or the store is read.
startupProbe:
  tcpSocket: {port: grpc}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  tcpSocket: {port: grpc}
{{- end -}}

{{/* A token of the pod's account for our services' audience. */}}
{{- define "trimtab.tokenVolume" -}}
- name: token
  projected:
    sources:
      - serviceAccountToken: {path: token, audience: {{ .Values.access.tokenAudience }}, expirationSeconds: 3600}
{{- end -}}

{{/* Bindings to one ServiceAccount; take [root, name, account, role; without it the binding's name]. */}}
{{- define "trimtab.clusterBinding" }}
{{- $root := index . 0 }}{{- $role := index . 1 }}{{- if gt (len .) 3 }}{{- $role = index . 3 }}{{- end }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: {{ index . 1 }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $role }}}
subjects: [{kind: ServiceAccount, name: {{ index . 2 }}, namespace: {{ $root.Release.Namespace }}}]
{{- end }}

{{- define "trimtab.binding" }}
{{- $root := index . 0 }}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: {{ index . 1 }}, namespace: {{ $root.Release.Namespace }}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ index . 1 }}}
subjects: [{kind: ServiceAccount, name: {{ index . 2 }}, namespace: {{ $root.Release.Namespace }}}]
{{- end }}

{{/* Ingress of planner and actuator; takes [root, callers]. */}}
{{- define "trimtab.ingress" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
- ports: [{port: grpc}]
  from: {{- toYaml . | nindent 4 }}
{{- end }}
{{- with $root.Values.networkPolicy.metricsFrom }}
- ports: [{port: metrics}]
  from: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end -}}

{{/* Names, the API server, the cloud, a database. */}}
{{- define "trimtab.egress" -}}
- ports:
    {{- range .Values.networkPolicy.dnsPorts | default (list 53) }}
    - {port: {{ . }}, protocol: UDP}
    - {port: {{ . }}}
    {{- end }}
- ports:
    {{- range .Values.networkPolicy.outgoingPorts }}
    - port: {{ . }}
    {{- end }}
{{- end -}}

{{/* Stop with a message unless the actuator has a cloud, and the cloud kwok its groups. */}}
{{- define "trimtab.requireCloud" -}}
{{- if not .Values.actuator.cloud -}}
{{- fail "actuator.cloud is required: externalgrpc, aws, clusterapi or kwok (docs/clouds.md), for example `--set actuator.cloud=aws`. For a test cluster whose machines are Node objects the chart has values-kwok.yaml. Without the actuator: `--set actuator.enabled=false`." -}}
{{- end -}}
{{- if and (eq .Values.actuator.cloud "kwok") (not .Values.nodeGroups) -}}
{{- fail "nodeGroups is required with actuator.cloud=kwok, which has no groups of its own: values-kwok.yaml in the chart has an example." -}}
{{- end -}}
{{- end -}}
