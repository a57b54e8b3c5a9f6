"""The decisions of one request, composed: which are taken, with what settings, from which simulation.

Pure: a function of snapshot and request. What is lent by the caller (stop-watch, bound) is in `planner.decisions.work`.
"""
