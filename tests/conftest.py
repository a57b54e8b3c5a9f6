"""How hypothesis runs in every test: no deadline for one example, since kernels compile within the first one.

By default each run draws the same examples, so that a test fails for a change and not by luck; the profile `explore`
draws new ones. Neither keeps examples in files, or fails where drawing an example is slow or in vain.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "trimtab",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("explore", settings.get_profile("trimtab"), derandomize=False)
settings.load_profile("trimtab")
