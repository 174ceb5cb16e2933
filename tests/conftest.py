"""Options and profiles common to all tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["support.fixtures", "support.quarantine"]

# A busy machine must not fail a property: no deadlines. CI is repeatable: the same examples every time.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("default", _COMMON, derandomize=True)
settings.register_profile("search", _COMMON, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what golden files should say instead of checking")
