"""Replacement: which nodes go, which cheaper nodes come for them, and where each pod goes, in waves.

`trimtab.planner.replacement.decision.REPLACEMENT` is its entry in the table of decisions. Settings, the cluster before
any pod is moved, the least cost of room for pods, the search, waves and the answer are modules of their own. The rules
by which pods may be evicted are those of scale-down (`trimtab.planner.drainability`).
"""
