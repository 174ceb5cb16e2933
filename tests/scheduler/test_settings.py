"""What the core gets of the configuration."""

from nvshare.config import load
from nvshare.core.model import Settings
from nvshare.scheduler.main import settings_of


def test_the_defaults_of_the_scheduler_are_those_of_the_core() -> None:
    """So tests and simulations with the core's defaults are about what ships."""
    assert settings_of(load([], {})) == Settings()
