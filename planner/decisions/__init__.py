"""The decisions of one request, composed: which ones are taken, with which settings, on which simulation. Pure: a
function of snapshot and request. The caller's tools (stop-watch, bound) are in `trimtab.planner.round.round`. How to
add a decision: CONTRIBUTING.md, "Adding a decision".
"""
