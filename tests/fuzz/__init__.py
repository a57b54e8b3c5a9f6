"""Any amount of damaged input: `NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=DIR python -m tests.fuzz --inputs 1000000`."""
