"""The cheapest plan: which nodes of which groups together take all pods at the least total price.

A problem in numbers (`problem`), one answer (`plan`). Knows no snapshot, simulation or predicate: what it plans is a
proposal that its caller carries out in the simulation. Never takes price changes into account.
"""
