"""The planner's gRPC service: the one impure part. Streams, deadlines, caches, metrics and logs; no decisions."""
