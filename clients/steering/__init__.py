"""Steering: an existing autoscaler removes nodes, and annotations restrict which nodes it considers."""
