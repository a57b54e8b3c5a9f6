"""Devices of dynamic resource allocation: which devices the claims of a pod get on a node, and why they get none.

A pure core without clock, randomness, disk or protobuf: `model` holds its values, `allocator` decides. Nothing here is
imported by a planner whose snapshot has no device objects.
"""
