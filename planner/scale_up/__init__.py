"""Scale-up: which node groups grow, by how many nodes, and for which pods."""
