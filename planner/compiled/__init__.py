"""Compiled loops: numba, with a calling convention, a cache of compiled code and rules for both.

Users need four things: the decorators of `decorators` (`kernel` for loops that Python calls, `inner_kernel` for those
that only kernels call, and three variants), `by_reference` for tuples of arrays, `prefetch` (in `decorators`), and
`NUMBA_CACHE_DIR` for the folder of the cache. Nothing here knows anything of clusters, and nothing else imports numba.
Each part has its reason; times are CPU times of the benchmarks on 5,000 nodes with 150,000 pods:

- `by_reference`: tuples of arrays are passed to kernels as one pointer, and `shared_kernel`s are called by address.
  With numba's own convention, which passes each array as five words and more, the first loop of scale-down takes 82 %
  longer, and scale-up for 50,000 pods 68 %.
- `compiler`: kernels that only kernels call get no machine code of their own, and numba lists its flags once. Without
  it, compiling all kernels takes half as long again.
- `prefetch`: elements are requested before a loop reaches them. Without it, the first loop takes 7 to 14 % longer.
- `kernel_cache`: numba's own cache checks only the file of the outermost kernel, so after an upgrade it
  would use outdated code of an inner kernel, or an outdated constant of another module, and answer wrongly.
- Its locks: processes that start at the same time compile each kernel once, not each for itself.
- Its check of folders: loading compiled code runs it, so it is neither loaded from nor written to a folder that
  others can write.

`NUMBA_DISABLE_JIT=1` runs all kernels as plain Python, with equal results.
"""
