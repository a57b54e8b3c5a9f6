"""Trimtab actuator."""
