"""The cheapest plan: which nodes of which groups together take all pods at the least total price.

Input: a `Problem` in numbers; output: one `Plan` (`plan.cheapest_plan`). Uses no snapshot, simulation or predicates:
the plan is a proposal that the caller carries out in the simulation. Never takes price changes into account.

The linear programme is solved by an own simplex method (`kernels/master.py`), because HiGHS 1.16 (`highspy`, one
thread, fixed seed, warm start, fills added one batch at a time) was slower and not cheaper, in every mode. CPU time and
price of Karpenter's shape with 10,000 and 20,000 pods and 1,200 groups, and of 51 random problems (their prices as a
multiple of the proven bound):

    own simplex                 58 ms 198.4   73 ms 389.2   1.8 s 1.0088
    HiGHS, primal simplex       63 ms 199.4   90 ms 395.0   2.5 s 1.0088
    HiGHS, dual simplex         88 ms 199.2   96 ms 396.4   2.8 s 1.0086
    HiGHS, interior point      157 ms 198.4  215 ms 394.7  10.1 s 1.0081
    HiGHS, whole numbers       6.2 s  199.4  6.7 s  390.4   32 s  1.0105   (50 nodes of the tree instead of diving)

It would replace 160 lines, add a wheel of 3.2 MB (7.9 MB installed), and choose among duals of equal price by rules
that differ between its releases, while replicas have to answer with equal bytes.
"""
