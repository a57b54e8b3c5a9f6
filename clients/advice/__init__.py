"""What to change in a cluster or its settings so that more nodes could go, and what each change frees.

A client of the planner: it lifts one blocker after the other in a copy of the request, has the planner plan again, and
compares. A change is advised only with the nodes that the planner's own plan frees beyond the base plan, never with
the price of the nodes that it keeps. Reads no clock and no file; equal input gives equal advice.
"""
