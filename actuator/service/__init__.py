"""The actuator as gRPC service: requests in, answers out, everything assembled."""
