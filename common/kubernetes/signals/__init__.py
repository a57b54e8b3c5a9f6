"""Every key that decides something: annotations, labels, taints, conditions, finalizers and fields, by whose they are.
A key is spelled here and nowhere else; `table` has all rows, and docs/signals.md is written from them.
"""
