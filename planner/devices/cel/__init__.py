"""The Common Expression Language, as Kubernetes compiles and evaluates selectors of devices.

No library fits. cel-expr-python (C++) holds the process without a bound on time and memory (`[1].map(x, [x, x, ...])`
thirty times, compared with itself), stops at 32 nested calls, and has neither comprehensions with two variables nor
literals of one type; common-expression-language (Rust) and cel-python check no types and bound no loops.
"""
