"""Tests that cannot be relied on, by name and with a reason: `@pytest.mark.quarantined("why, and what would end it")`.

They still run and are shown, but their result does not decide. Every run ends with their number; it should be 0."""

import pytest

QUARANTINED = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "quarantined(reason): its result does not decide; counted in the summary")
    config.stash[QUARANTINED] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("quarantined")
        if marker is None:
            continue
        if not marker.args or not str(marker.args[0]).strip():
            raise pytest.UsageError(f"{item.nodeid} is quarantined without a reason")
        config.stash[QUARANTINED].append(f"{item.nodeid}: {marker.args[0]}")
        item.add_marker(pytest.mark.xfail(reason=str(marker.args[0]), strict=False))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    quarantined = config.stash[QUARANTINED]
    for line in quarantined:
        terminalreporter.write_line(f"QUARANTINED {line}")
    terminalreporter.write_line(f"quarantined: {len(quarantined)}")
