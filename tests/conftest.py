"""Set-up for the whole suite.

CELLCRYPT_REQUIRE   comma list of backends and tools (support.TOOLS) whose absence fails instead of skipping.
--hypothesis-seed   the seed of the properties, which each run prints; without it a new one every run.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings

from cellcrypt.backend import BUILT_IN

from .support import REQUIRED, TOOLS

settings.register_profile(
    "cellcrypt", deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("cellcrypt")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    unknown = REQUIRED - {*BUILT_IN, *TOOLS}
    if unknown:
        known = ", ".join((*BUILT_IN, *TOOLS))
        raise pytest.UsageError(f"CELLCRYPT_REQUIRE must name some of {known}, got {', '.join(sorted(unknown))}")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    return (
        f"properties: --hypothesis-seed={config.option.hypothesis_seed}; required: {', '.join(REQUIRED) or 'nothing'}"
    )
