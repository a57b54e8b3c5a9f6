"""An API server of Kubernetes: connection, single calls, errors, permissions, Lease, token review. For clients and
services alike.

The model beside it, which the planner and simulations use without any server: `kinds` (the objects, as structs),
`quantities`, `pod_requests`, `selectors`, `object_errors`. It imports no numpy and decides nothing about a cluster.
"""
