"""Compiled writers of the wire format."""
