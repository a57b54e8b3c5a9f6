"""What every decision of one plan is given, and the face that each decision has.

`planner.round.round.Round` holds snapshot, moment, seed, planner-wide settings and the one simulation on which all
decisions of a plan work; `planner.round.decision.Decision` is what a decision's package offers to the table of
decisions. Takes no decision.
"""
