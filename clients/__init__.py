"""Trimtab clients."""
