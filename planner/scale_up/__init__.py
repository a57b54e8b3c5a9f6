"""Scale-up: which node groups grow by how much, and for which pods."""
