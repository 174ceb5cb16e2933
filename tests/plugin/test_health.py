"""Which GPUs are fit to be offered."""

from nvshare.plugin.health import Health


def test_a_gpu_that_stops_answering_is_unhealthy_until_it_answers() -> None:
    health = Health(["a", "b"])
    assert health.probed("a", 0, answers=False, needs_recovery=None)
    assert health.unhealthy() == {"a": "does not answer"}
    assert not health.probed("a", 30, answers=False, needs_recovery=None)
    assert health.probed("a", 60, answers=True, needs_recovery=None)
    assert health.unhealthy() == {}


def test_an_error_of_a_program_does_not_strike_the_gpu() -> None:
    health = Health(["a"], ignored_xids=[92])
    assert not any(health.xid("a", code, 0) for code in (13, 31, 43, 45, 68, 109, 92))
    assert health.unhealthy() == {}


def test_an_xid_error_heals_when_the_driver_says_so() -> None:
    health = Health(["a", "b"])
    assert health.xid("a", 79, 0)
    assert health.unhealthy() == {"a": "XID error 79"}
    assert not health.probed("a", 1000, answers=True, needs_recovery=True)
    assert health.probed("a", 1030, answers=True, needs_recovery=False)
    assert health.unhealthy() == {}


def test_an_old_driver_is_believed_after_ten_quiet_minutes() -> None:
    health = Health(["a"])
    health.xid("a", 48, 0)
    health.xid("a", 48, 100)
    assert not health.probed("a", 650, answers=True, needs_recovery=None)
    assert health.probed("a", 701, answers=True, needs_recovery=None)


def test_silence_after_an_error_does_not_forget_the_error() -> None:
    health = Health(["a"])
    health.xid("a", 79, 0)
    health.probed("a", 30, answers=False, needs_recovery=None)
    health.probed("a", 60, answers=True, needs_recovery=None)
    assert health.unhealthy() == {"a": "answers again after an XID error"}


def test_an_error_of_no_named_gpu_strikes_all_and_one_of_a_stranger_none() -> None:
    health = Health(["a", "b"])
    assert not health.xid("stranger", 79, 0)
    assert health.xid(None, 79, 0)
    assert set(health.unhealthy()) == {"a", "b"}


def test_a_reset_the_driver_asks_for_is_enough() -> None:
    health = Health(["a"])
    assert health.probed("a", 0, answers=True, needs_recovery=True)
    assert health.unhealthy() == {"a": "the driver requests a reset"}
