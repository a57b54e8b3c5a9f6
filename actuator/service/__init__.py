"""The actuator as a gRPC service, with everything it is assembled from."""
