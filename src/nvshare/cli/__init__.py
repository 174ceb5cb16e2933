"""The command lines: `nvshare`, `nvsharectl`, `kubectl nvshare`.

`nvshare` loads one package per command: `run`, `demo`, `doctor`, `simulate`; `ctl` holds both operator tools. What
belongs at this level: what two commands share and is not about starting programs. What does not: anything that the
daemon needs.
"""
