"""A plan for people: the most important first, then what blocks most nodes, and the rest with `--verbose`.

`table` is the ordered table of decisions, each rendered by a module; a new decision takes one module and one line
there. Renderers read the answer, the snapshot and the settings; they never decide. `-o json` has everything.
"""
