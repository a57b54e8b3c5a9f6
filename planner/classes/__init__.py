"""Equivalence classes for scheduling: nodes by labels and taints, pods by spec, namespace and labels.

Classes are exact. A label counts only if some selector of the snapshot uses its key, and its value only if one names
it.
"""
