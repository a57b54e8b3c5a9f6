"""Commands on live clusters and recordings of them: `run`, `record`, `replay`."""
