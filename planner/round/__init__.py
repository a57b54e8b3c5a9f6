"""The input of all decisions of a plan, and the interface of a decision.

`trimtab.planner.round.round.Round` holds snapshot, time, seed, planner-wide settings and the one simulation on which
all decisions of a plan work; `trimtab.planner.round.decision.Decision` is the entry of a decision's package in the
table of decisions. Takes no decision.
"""
