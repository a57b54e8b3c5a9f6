"""The slack decision: room kept free by placeholder pods that take part in every decision and never exist.

`decision` is its entry in the table; `sets` says which placeholders there are to be, from `parts` of the cluster, their
`rooms`, `schedules` and `sizes`; `places` says where they are; `state` is what the next loop is told.
"""
