"""Damaged input in any number: `NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=DIR python -m tests.fuzz --inputs 1000000`."""
