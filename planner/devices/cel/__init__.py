"""The Common Expression Language, as Kubernetes compiles and evaluates selectors of devices.

No library stands here. Tried with the selectors that are recorded from the real evaluator, and 10,000 random ones:

cel-expr-python 0.1.3 (C++; wheels of 16 MB, 55 MB unpacked) bounds iterations to 10,000, and nothing else. Values grow
without end (`['a'].map(x, x + x + x + x)`, repeated), and a regular expression with repetitions takes more than 20 s,
while the whole process stands still. Each `null` that it returns costs a reference to None: 5,000 end a process of
Python 3.11. A map has no default, as unknown domains need. It compiles 12 of 406 recorded selectors differently, and 9%
of the random ones: literals of several types, and constants that cannot be converted.

common-expression-language 0.10 (Rust) and cel-python 0.5 check no types, have neither `cel.bind` nor optional entries
nor comprehensions with two variables, and let values grow in the same way.
"""
