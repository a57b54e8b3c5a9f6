"""A plan for people: what matters first, then what blocks the most, then the rest with `--verbose`.

`table` is the ordered table of decisions, with one module each that renders it; a new decision is one module and one
line there. Renderers read the answer, the snapshot and the settings; they never decide. `-o json` has everything.
"""
