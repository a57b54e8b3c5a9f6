"""The slack decision: room kept free by placeholder pods, which exist only in the simulation and are part of every
decision.

`decision` is its entry in the table; `sets` determines which placeholders are required, from `parts` of the cluster,
their `rooms`, `schedules` and `sizes`; `places` assigns them to nodes; `state` is passed to the next loop.
"""
