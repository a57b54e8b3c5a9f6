"""A small Kubernetes cluster with its cloud, inside the actuator: for the demo, tests and first steps.

It stands for the outside world, so it has a database of its own and goes on when the actuator is killed.
"""
