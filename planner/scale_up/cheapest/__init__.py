"""The cheapest plan: which nodes of which groups together take all pods at the least total price.

Input: a problem in numbers (`problem`); output: one answer (`plan`). Uses no snapshot, simulation or predicates: the
plan is a proposal that the caller carries out in the simulation. Never takes price changes into account.
"""
