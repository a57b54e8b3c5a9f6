"""`trimtab demo`: both services as processes on this machine, a simulated cluster, and the loop between them.

`services` starts and ends the processes, `loop` is the loop, `screen` shows it, `evidence` checks afterwards from the
cluster's own objects, without asking planner or actuator, that everything went right.
"""
