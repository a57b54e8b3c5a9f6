"""Which pods can be moved when their node is drained: a table of rules, the columns that they read, outcomes."""
