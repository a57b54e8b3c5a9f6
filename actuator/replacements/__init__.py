"""Carries out replacements in steps: marks, orders, waits, drains, rolls back."""
