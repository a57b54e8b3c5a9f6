"""What nodes of an instance type really have: taught by ready nodes, estimated for types that no node has shown."""
