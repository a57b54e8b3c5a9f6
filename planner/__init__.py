"""The planner: a pure function from a cluster snapshot to decisions, and the gRPC service around it."""
