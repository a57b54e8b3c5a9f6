"""Expanders: how one option is chosen among several, one module each, with one face.

`score(context, state, options) -> float64[O]`: the larger, the better; NaN = the option is excluded. Scores are
the same whatever the order of options. `chain` asks one after the other.
"""
