"""Real resources of nodes by instance type: learned from ready nodes, estimated for types without ready nodes."""
