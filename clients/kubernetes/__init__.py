"""An API server of Kubernetes: connection, single calls, errors, permissions, Lease, token review. For clients and
services alike.

This package knows no kind of object. It imports only generated messages from this project.
"""
