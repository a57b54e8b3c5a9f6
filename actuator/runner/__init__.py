"""Turns instructions into work and results back into events: bounded concurrency, retries, deadlines."""
