"""Answers ProvisioningRequests: books room for all pods of a request, with new nodes of several groups if its class
allows that, or for none of them.

The decision is taken before all others, in a simulation of its own; what it orders and books is input to the others
(`trimtab.planner.round.round.BookedRoom`).
"""
