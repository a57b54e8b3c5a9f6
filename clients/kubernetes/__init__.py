"""An API server of Kubernetes: connection, single calls, errors, permissions, Lease, for clients and actuator alike.

This package knows no kind of object. It imports only generated messages from this project.
"""
