"""Loops over the counters of predicates. Every kernel takes a predicate's counters whole and changes them in place."""
