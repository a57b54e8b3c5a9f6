"""Which nodes can be removed: those whose pods all fit, at the same time, on nodes that stay.

`trimtab.planner.scale_down.decision.SCALE_DOWN` is its entry in the table of decisions. State between loops travels as
`ScaleDownState`; none is kept here. The values of a loop, each made of those above it:

    ScaleDownRequest                round, settings, state of the last answer
    ScaleDownContext                the cluster before any pod is moved          context.survey
    DrainProblem                    the arrays that an attempt changes           loop
    DrainTask                       the common input of all attempts             loop
    DrainSet                        one greedy pass in one order                 search.drain_sets.run
    Improved                        a set with other nodes, and their waves      search.exchange
    ChosenDrainSet                  the best of them                             search.portfolio
    SlackDependentNodes             more nodes that go as slack shrinks          search.fewer_placeholders
    LoopResult                      all that the answer needs                    result.extract_result
    Removal                         what goes now                                removal.select
    ScaleDownPlan                   all of it                                    loop.make_plan
    Decided                         answer, next state, moves to finish          decision.conclude
"""
