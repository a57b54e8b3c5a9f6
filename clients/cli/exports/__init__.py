"""Answers as Kubernetes objects, for clusters where something else carries them out."""
