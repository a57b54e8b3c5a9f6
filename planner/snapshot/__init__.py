"""A snapshot as columns: decoding, validation, deltas, the cache of versions. No scheduling knowledge."""
