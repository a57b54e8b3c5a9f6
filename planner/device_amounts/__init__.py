"""Devices as amounts of nodes: where devices are equal and a claim only counts them, all decisions see a resource.

`planned_snapshot` returns what is planned with; the rest is how. Pure.
"""
