"""Trimtab from Python: what `trimtab.plan`, `trimtab.advise`, `trimtab.client` and `trimtab.Simulator` are.

Does what the commands of the same names do, with answers as values: nothing is written to standard output, and notes on
the input are in the answer. Loaded by the package `trimtab` at the first use of a name.
"""
