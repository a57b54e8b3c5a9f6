"""Traces of load: arrivals, and recordings of other tools. `docs/simulate.md` has the forms."""
