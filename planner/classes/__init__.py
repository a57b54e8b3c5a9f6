"""What scheduling cannot tell apart, numbered once: nodes by labels and taints, pods by spec, namespace and labels.

A class is exact, never a guess: labels take part only where some selector of the snapshot looks at them, value by
value.
"""
