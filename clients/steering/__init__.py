"""Steering: an autoscaler that is there already removes nodes, and annotations say which it may look at."""
