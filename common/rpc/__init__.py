"""The gRPC shell that both services and all clients share.

Decides how a server starts, reports its health, answers errors, logs calls and stops, and how a client connects,
retries and reads errors. Never knows what a call means. All durations are in seconds.

- `errors`: `ServiceError` (raised in a service), `TrimtabError` (raised in a caller).
- `interceptor`: the one place where an exception becomes a gRPC status.
- `server`: `Registration`, `ServerSettings`, `Shell` and `serve`.
- `access`: who may call, by a policy file or by tokens that the service has reviewed.
- `telemetry`: structured logs, metrics with a Prometheus endpoint, traces.
- `options`: the command-line options every service has.
- `extras`: the optional dependencies of each extra.
- `client`: `connect`, `RetryPolicy`, `invoke`.
"""
