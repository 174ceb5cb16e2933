"""The command lines: `nvshare`, `nvsharectl`, `kubectl nvshare`.

`nvshare` loads one package per command: `run`, `demo`, `doctor`, `simulate`; `ctl` holds both operator tools. What two
commands share and is not about starting programs is at this level. What does not belong here: anything that the daemon
needs.
"""
