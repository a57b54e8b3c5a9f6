"""Traces of load: arrivals, and recordings of other tools. `docs/simulation-traces.md` has the forms."""
