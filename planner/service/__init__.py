"""The planner's gRPC service, its only impure part: streams, deadlines, caches, metrics and logs; no decisions."""
