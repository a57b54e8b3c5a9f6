"""The scheduler's Filter predicates, one module each, one ordered list in `trimtab.planner.predicates.order`.

A predicate is either a matrix over classes, computed once, or counters updated as pods are placed and removed; the
kernels over the counters are in `trimtab.planner.predicates.kernels`. Source: kube-scheduler v1.37.2, default PreFilter
and Filter.
"""
