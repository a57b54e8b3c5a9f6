"""A plan for people: the most important first, then what blocks most nodes, and the rest with `--verbose`.

`table` has the decisions in the order of display, each rendered by a module; a decision without one is rendered by
`any_decision`. Renderers read the answer, the snapshot and the settings; they never decide. `-o json` has everything.
"""
