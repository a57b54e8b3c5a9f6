"""Expanders: how one option is chosen among several. `chain` applies their `scores` one after the other."""
