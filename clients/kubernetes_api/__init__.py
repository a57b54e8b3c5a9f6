"""An API server of Kubernetes: connection, single calls, errors, permissions, Lease, for clients and actuator alike.

Nothing here knows what is called for, and nothing here imports another part of this project but generated messages and
`clients.transport`.
"""
