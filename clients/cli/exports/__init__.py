"""Answers as Kubernetes objects, for clusters where another controller carries them out."""
