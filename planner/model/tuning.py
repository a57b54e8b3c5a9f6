"""The numbers that tune searches, in one place: each changes how good a plan is, or how long it takes, and none what is
legal. Those that were measured say so; all others are guesses, and whoever measures one (half, double) moves it up. The
budgets of `search_effort` are in `trimtab.planner.model.settings.scale_up`.
"""

from typing import Final

# Rounding
TOLERANCE: Final = 1e-9
"""Difference of two amounts, or share of one, below which they count as equal: it may be rounding."""

# Measured
SHUFFLES: Final = 8
"""Arbitrary orders of candidates; four times as many gave no improvement. With them, three of 40 and three of 120
recorded clusters lose one node more, and one each fewer falls behind upstream's best order."""
NARROWER_THRESHOLDS: Final = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Utilization thresholds whose plans are candidates for higher ones, so that a plan with more candidates never saves
less than one with fewer, as it else does in every tenth cluster. Not below upstream's default."""
DESTINATION_PATIENCE: Final = 32
"""Consecutive destinations that also cannot be emptied, after which the others are not tried. Trying them frees 1,987
instead of 1,945 nodes of 24 generated clusters with spread and anti-affinity."""
CANDIDATE_BATCH: Final = 256
"""Candidates between two readings of the clock: a few milliseconds; handing over the arrays takes a third of one."""
DISPLACEMENTS: Final = 256
"""Most times that pods are displaced in one packing of the exchange. Of the corpus' clusters, 64 miss 5.7 % of one's
saving; 1,024 save nothing more, in twice the work of some."""
MANY_PODS: Final = 64
"""Pods of a trial above which new nodes are planned quickly: that costs a quarter and is as good within 0.3 %."""
MANY_CELLS: Final = 2048
"""Rows of pods times groups above which they are, too: else a trial with 40 pods and 100 groups takes 0.3 s."""
TRIAL_ROWS: Final = 300
"""Rows of pods of a trial above which similar ones are joined. That costs some 0.2 % of the price, and saves most of
the time."""
ASCENT_STEPS: Final = 60
"""Steps of the ascent of prices, besides its starting points. The bound hardly rises after some dozens."""
MANY_SETS: Final = 32
"""Sets of pods that get places together from which on the new nodes of each are planned quickly: about 3 ms for each
instead of 20. Plans for pods of one class are the cheapest anyway, and gangs planned together are searched as usual."""

# Guesses: the cheapest new nodes
NODE_COST: Final = 1e-6
"""Cost of a node besides its price, as a share of the highest price: of plans of equal price fewer nodes win."""
UNPLACED_POD_COST: Final = 100.0
"""Cost of a pod without a place, in nodes of the highest price."""
KNAPSACK_PODS: Final = 4096
"""Most pods of one class for which the plan is a knapsack."""
JOIN_RATIOS: Final = (1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 2.0)
"""Ratios up to which requests are joined, tried in this order."""
REFINEMENT_ROUNDS: Final = 2
"""Rounds in which classes and groups are told apart; one tells apart what differs in its own numbers or in those of its
partners."""
CLOSE_TO_BEST: Final = 0.95
"""A node is planned if its worth for price is at least this share of the best of the others, by their last fills."""
LARGE_SHARE: Final = 0.25
"""Share of the remaining amount beyond which placed pods change the weights."""
HEAVY_WEIGHT: Final = 8.0
"""Weight of the resource that weighs most; the others have 1."""
EXCHANGE_ROUNDS: Final = 4
"""Rounds in which pods of a fill are exchanged for others."""
LEAST_FILL_GAIN: Final = 1e-3
"""Share of a node's price by which the worth of its fill has to exceed the price."""
LEAST_DUAL_GAIN: Final = 1e-6
"""The same, with the worth by the programme's own duals."""
KEPT_WORTH: Final = 0.6
"""Share of a pod's worth kept from one solution to the next, because duals oscillate (Wentges 1997)."""
GROUPS_TOGETHER: Final = 32
"""Approximate number of groups evaluated between two solutions of the programme."""
FILLS_AT_ONCE: Final = 12
"""Fills added between two solutions, at most."""
SIMPLEX_STEPS: Final = 2000
"""Steps of the simplex method for one solution, at most."""
NUDGE: Final = 1e-3 / 65536
"""Bounds are increased by up to 65,535 times this, each by a different amount, to avoid degenerate steps (Charnes
1952)."""
PLANS_BY_DUALS: Final = 6
"""Most plans by duals; each takes about as long as the linear programme between two of them."""
GENERATED_FILLS: Final = 200_000
"""Nodes filled for the linear programme, times classes."""
PLANS_WORK: Final = 120_000
"""Plans by duals, times the square of the programme's rows."""
LIMIT_ROUNDS: Final = 4
"""How often the linear programme is made again because it has more nodes of a group than allowed."""
DIVE_WORK: Final = 80_000
"""Solutions of the programme while it is rounded, times the square of its rows."""
ROUND_UP_FROM: Final = (0.5, 0.9)
"""Levels of the linear programme from which nodes are planned immediately."""
WHOLE_LEVEL: Final = 1e-2
"""By how much a level may miss a whole number; bounds are slightly larger than exact."""
DIVE_FILLS: Final = 32
"""Nodes filled for new fills after each step of rounding."""
IMPROVED_PLANS: Final = 3
"""Most plans that are improved."""
IMPROVEMENT_FILLS: Final = 20_000
"""Nodes filled to improve a plan, fewer if there are more classes than FEW_CLASSES."""
FEW_CLASSES: Final = 100
"""See IMPROVEMENT_FILLS."""
IMPROVEMENT_PARTS: Final = 4
"""Parts of that work, between which batches without nodes are dropped."""
FEWEST_TAKEN, MOST_TAKEN = 2, 7
"""Nodes taken out of a plan at once to improve it: least, and one more than most."""
STIR: Final = 0.5
"""Largest share by which the worth of a class's pods, and the cost of a group's node, are varied."""
MOST_NARROWED: Final = 8
"""How often a plan that quotas do not admit is made again, with fewer nodes of the group that has most."""
MOST_ALONE: Final = 256
"""Maximum number of kinds of classes whose pods are packed alone; those with most pods come first."""
MOST_BOUND: Final = 4096
"""Maximum number of classes that are sorted into such kinds; those with most pods come first."""
MOST_SETS: Final = 16
"""Maximum number of sets of classes in the problem that have a limit on a node together."""
SCARCE_PODS: Final = 4
"""Pods that spread over nodes have a limit in the problem if there are more than one for this many nodes. The places of
fewer are found when the pods are placed."""
ZONE_KINDS: Final = 16
"""Sets of groups that admit the same pods, of which the largest ones take part; those with most pods come first."""

# Guesses: where pods fit
LOOK_AHEAD: Final = 1024
"""Number of next pods among which those of the group are counted; more hardly ever fit one node."""
SLOTS_TRIED: Final = 64
"""Slots of new nodes tried for a pod."""
SEARCHED_DOMAINS: Final = 64
"""Most domains of a topology key that are searched one by one: useful for zones but not for hosts."""
CLASSES_TOGETHER: Final = 256
"""Most classes of which it is asked whether one new node takes more of their pods than any other."""
SAME_SIZE_RATIO: Final = 1.05
"""Ratio up to which nodes count as of one size: the amounts that systems keep for themselves differ."""

# Guesses: scale-up and ProvisioningRequests
PROMISING_GROUPS: Final = 32
"""Groups that are packed because they are promising, if there are more kinds than the budget pays for."""
SAMPLED_GROUPS: Final = 32
"""Other groups that are packed then, because of their sizes."""
REPACKED_GROUPS: Final = 4
"""Those that are packed in more than one order, because of their results in the first."""
MOST_PRIORITIES: Final = 16
"""Priorities for which groups grow one after the other; pods of the lowest ones count as having the same."""
SETTLING_ROUNDS: Final = 8
"""How often nodes are added because a plan is not valid with all its new nodes present from the start."""
SINGLE_POD_RUNS: Final = 16
"""Most turns of single pods of one priority between gangs; the last one has all others of the priority."""
OPTION_PLANS: Final = 8
"""Most plans made for pods that options leave; options that leave the same pods share one."""
REPACKING_ORDERS: Final = 64
"""Orders of pods tried to do without one new node."""
MIXED_ORDERS: Final = 16
"""Those of them in which pods of all classes are mixed."""
REPACKINGS_PER_GROUP: Final = 4
"""For how many successive nodes of one group there are as many checks (pods times nodes) as for one."""
WITHOUT_WORK: Final = 4
"""What a plan without one of the groups takes of the budget of variants, as a multiple of others."""

# Guesses: scale-down
STABILITY_MARGIN: Final = 0.05
"""Share by which another plan must be better than the continuation of the last one: a small gain is not worth
restarting timers. Without effect if the settings name orders."""
WORTH_PODS: Final = 20_000
"""Number of pods to move from which an attempt is worth a copy of the simulation: it then takes several
milliseconds."""
LEAST_EVALUATED: Final = 10
"""New candidates that are simulated whatever the deadline, so that each loop makes progress."""
LEAST_PACKINGS: Final = 128
"""The exchange is worth beginning if its budget pays for this many packings."""
SINGLES: Final = 64
"""Most nodes of each side that single moves of the exchange consider: of those that go the ones that save least for
their share, of the others those that save most."""
PAIRS: Final = 12
"""The same for pairs of nodes."""
MOST_AT_ONCE: Final = 8
"""Most nodes of a side that is not made of single nodes and pairs: the first three, four and so on in their order."""
SQUARINGS: Final = 3
"""What a move gains counts times what it leaves of the free cpu and memory, squared so many times."""
NEARLY_AS_GOOD: Final = 0.1
"""Candidates that save as much for their share, or less by up to this part, are in an arbitrary order: many nodes are
alike but for their pods, and pairs and larger sets are of the first."""
POD_CHECKS: Final = 4
"""Checks that a pod counts as, besides the nodes looked at for it: it is taken off, placed, and both are undone."""
PACKING_CHECKS: Final = 64
"""Checks that a packing counts as, besides those of its pods."""
MOVES_A_CHECK: Final = 4
"""Moves that are sorted in the time of a check."""
LOOKS_A_CHECK: Final = 8
"""Pods looked at to be displaced in the time in which a node is looked at for a pod."""
MOST_PLACES: Final = 8
"""Most sets of nodes with pods of their own that get a bound: those of the most pods."""
SMALL_SET: Final = 2
"""Such a set has at most one in so many nodes; larger ones bound little more than all nodes together."""
MOST_BUDGETS: Final = 64
"""Most budgets that get a row: the first of those that do not allow all candidates."""
SLACK_DEPENDENT_NODES: Final = 8
"""Most nodes of a plan that go because slack then requests less: for each, all placeholders are taken off and put
back."""
SLACK_PATIENCE: Final = 8
"""Failed tries after which no more such nodes are tried."""

# Guesses: replacement
GOOD_ENOUGH: Final = 0.997
"""Share of what all waves as one would save from which no other way is tried."""
SET_SIZES: Final = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    14,
    20,
    30,
    45,
    70,
    100,
    150,
    220,
    320,
    500,
    750,
    1100,
    1600,
    2400,
    3600,
    5000,
)
"""Numbers of nodes of the sets that a wave tries of each order."""
MOST_SUBSETS: Final = 5
"""Candidates up to which all sets are tried."""
CLEAR_SHARES: Final = (0.5, 0.6)
"""Shares of their price by which nodes clearly cost too much: pods of others are moved for little."""
EXCHANGE_POOL: Final = 24
"""Nodes that are tried in exchange for others."""
TRIAL_WORK: Final = 128
"""What a trial counts as besides its pods, in the work of replacement."""
FOLLOWED_NEW_NODES: Final = 256
"""New nodes of a target up to which waves open these, if that saves; of more, each wave has enough to choose from."""
WAVE_WORK_SHARES: Final = 2
"""How much of the remaining work one wave may take, as a multiple of the mean of those that may come."""
SPARE_SHARE: Final = 0.05
"""Share of the nodes that are left out besides, if too many new ones were needed."""
REPAIRS: Final = 3
"""How often a wave that breaks a limit is tried again with fewer nodes."""
REPEATED_OPENINGS: Final = 3
"""How many times new nodes are opened for pods that have found no room."""
EARLY_PREFERENCE: Final = 0.1
"""How much more what is saved in a wave counts than in later ones, where waves follow a target."""
LOST_ROOM: Final = 0.1
"""Share of a pod's room that is lost if it takes the room that the target has for other pods."""
KEEPING_WORK: Final = 1 << 16
"""Work of all tries to keep nodes for a wave, as that of trials. Some 10 ms."""
KEPT_NODES_TRIED: Final = 32
"""Nodes that a wave tries to keep, those first whose pods cost most to move."""
ORDER_CHECKS: Final = 200
"""Orders of the parts of a wave whose limits are checked."""
LIMIT_CHECKED_NODES: Final = 256
"""Nodes, those with most to save first, of which it is asked which limit keeps each of them alone."""
BOUND_KINDS: Final = 32
"""Classes of nodes that stay and have free room, each by itself; more count as one that admits every pod."""
ASCENT_CELLS: Final = 40_000_000
"""Entries of classes times offers times resources of all these steps together: about 100 ms."""
FIRST_ASCENT_STEP: Final = 1.5
"""First step of the ascent of prices."""
PRICED_ROWS: Final = 400
"""Rows of pods above which similar ones are joined to find prices."""
