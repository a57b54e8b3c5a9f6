"""How hypothesis runs in every test: no deadline for one example, since kernels compile within the first one."""

from hypothesis import settings

settings.register_profile("trimtab", deadline=None, print_blob=True)
settings.load_profile("trimtab")
