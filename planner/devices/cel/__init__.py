"""The Common Expression Language, as far as selectors of devices use it: parser, types, evaluation, functions.

A package of its own, since the libraries there are for Python accept no values of other types (quantities, versions),
lack `cel.bind`, optional fields and the functions of Kubernetes, and check no types.
"""
