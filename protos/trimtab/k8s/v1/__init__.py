"""Kubernetes messages, as a subset that is compatible on the wire."""
