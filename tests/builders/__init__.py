"""Builders of test input: plain Kubernetes JSON dicts with sensible defaults (`kubernetes`), plain rows (`rows`), and
what is made of them; a test gives only what matters to it.

`snapshot_of(node(cpu="4"), pod(cpu="500m", node="n1"))` turns such dicts into a `ClusterSnapshot`. What one folder of
tests uses stands in that folder.
"""
