"""Expanders: how one option is chosen among several; one module each, all with the same interface.

`score(context, state, options) -> float64[O]`: the larger, the better; NaN = the option is excluded. Scores do not
depend on the order of options. `chain` applies them one after the other.
"""
