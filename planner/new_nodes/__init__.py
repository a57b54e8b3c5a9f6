"""The cheapest new nodes for pods of a simulation: the problem in numbers, and the plan as nodes with slots."""
