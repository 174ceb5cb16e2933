"""SIGHUP: the settings are read again. Those that can change while it runs do so; the log names all changes."""

from collections.abc import Callable
from typing import cast

from nvshare.config import Config, ConfigError
from nvshare.core.events import ModeSet, QuantumSet
from nvshare.core.model import SECOND, ModeName
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log


def set_log(config: Config) -> None:
    """Level and format of the log."""
    log.level = "debug" if config.debug else config.log_level
    log.is_json = config.log_format == "json"


def show_steps(engine: Engine) -> None:
    """Or do not, if the level is above info: then the log costs a step nothing."""
    is_shown = log.observe in engine.observers
    if log.shows("info") and not is_shown:
        engine.observers.append(log.observe)
    elif is_shown and not log.shows("info"):
        engine.observers.remove(log.observe)


class Reload:
    """Holds the settings in force. `read` reads them again, from the same flags, environment and file."""

    def __init__(self, engine: Engine, config: Config, read: Callable[[], Config]) -> None:
        self._engine = engine
        self._config = config
        self._read = read

    def reload(self) -> None:
        try:
            fresh = self._read()
        except ConfigError as error:
            log.error(f"The settings stay as they are: {error}")
            return
        before, self._config = self._config, fresh
        changed = [name for name in Config.__struct_fields__ if getattr(before, name) != getattr(fresh, name)]
        for name in changed:
            then = "" if name in self._live(fresh) else "; it takes effect after a restart"
            log.info(f"Setting {name}: {getattr(before, name)} -> {getattr(fresh, name)}{then}")
        if not changed:
            log.info("The settings were read again; none has changed")
        set_log(fresh)
        show_steps(self._engine)
        if self._live(fresh) & {"switch_time_mode", "switch_time_fixed"} & set(changed):
            self._set_quantum(fresh)

    def _live(self, config: Config) -> set[str]:
        """The settings that change at once."""
        live = {"debug", "log_format", "log_level", "switch_time_mode"}
        return live | {"switch_time_fixed"} if config.switch_time_mode == "fixed" else live

    def _set_quantum(self, config: Config) -> None:
        if config.switch_time_mode == "fixed":
            self._engine.post(QuantumSet(config.switch_time_fixed * SECOND))
        else:
            self._engine.post(ModeSet(cast("ModeName", config.switch_time_mode)))
