"""Which nodes can be removed: those whose pods all fit, at the same time, on nodes that stay.

`trimtab.planner.scale_down.decision.SCALE_DOWN` is its entry in the table of decisions. Eligibility, drainability (one
rule a file), the search over sets of nodes, the selection of what goes now and the report are separate packages. State
between loops travels as `ScaleDownState`; none is kept here. The values of a loop, each made of those above it:

    ScaleDownRequest         round, settings, state of the last answer
    Context                  the cluster before any pod is moved        context.survey
    Problem                  the arrays that an attempt changes         loop
    Task                     the common input of all attempts           loop
    Attempt                  one greedy pass in one order               search.drain_sets.run
    Choice, FurtherNodes     the best attempt, and more due to slack    search.portfolio, search.fewer_placeholders
    Found                    all that the answer needs, cacheable       report.found.sift, cached_plan
    Removal                  what goes now                              selection.removal.select
    Decided                  answer, next state, moves to finish        report.findings.conclude
"""
