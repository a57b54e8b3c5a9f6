"""`trimtab demo`: both services as processes on this machine, a simulated cluster, and the loop between them.

`services` starts and stops the processes, `loop` is the loop, `screen` displays it, and `evidence` checks afterwards
that everything went right, from the cluster's own objects and without planner or actuator.
"""
