"""`-o html=FILE`: one page with charts, usable offline, from a simulation or a cluster."""
