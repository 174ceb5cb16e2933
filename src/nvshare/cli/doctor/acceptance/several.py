"""Checks with several programs and their scheduler: limits, turns, switches, the reserve."""

import asyncio
import contextlib
import math
import statistics
from collections.abc import AsyncIterator
from pathlib import Path

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.demo.limit import Allocator, change_limit
from nvshare.cli.doctor.acceptance import prediction
from nvshare.cli.doctor.acceptance.results import Card
from nvshare.cli.doctor.acceptance.single import bare, probe, probe_path, scheduler, small, under
from nvshare.cli.errors import CommandError
from nvshare.quantity import amount

Passes = asyncio.Queue[tuple[float, str] | CommandError]
"""When the passes of the programs ended; an error if one of them has failed."""
NAMES = ("first", "second")
SWITCHES = 3
TURNS = SWITCHES + 2
"""The first switch is not counted, and there is a turn before it."""
FOREVER_S = "3600"
PART = 0.6
"""Of what is free: two such programs do not fit together."""
HOST_PART = 0.75
"""The host must have this part of what is free: as much may be evicted."""
PASSES_S = "1"
BULK_QUANTUM_S = 1
GRACE_S = 10
MOST_GRACE_S = 600
"""The longest that the scheduler takes."""


class SkippedError(Exception):
    """The check cannot run here; the text says why."""


def limit(card: Card) -> dict[str, float]:
    return asyncio.run(_limit(card))


async def _limit(card: Card) -> dict[str, float]:
    limited = small(card) // 4
    with scheduler(card) as paths:
        environment = under(card, paths, name="limited", limit_bytes=limited)
        async with Allocator(environment) as program:
            over = f"alloc {2 * limited}"
            refused = await program.say(over) == "CUDA_ERROR_OUT_OF_MEMORY"
            shown = (await program.say("info")).split()[-1:]
            took = await change_limit(paths.operator_socket, program, 4 * limited)
            granted = await program.say(over) == "ok"
            worked = await program.say("work") == "ok"
    return {
        "refused": refused,
        "granted": granted and worked,
        "shown_bytes": float(shown[0]) if shown else 0.0,
        "limit_bytes": limited,
        "live_change_s": took,
    }


def switch_in_bulk(card: Card) -> dict[str, float]:
    return asyncio.run(_switches(card, in_bulk=True))


def switch_by_faults(card: Card) -> dict[str, float]:
    return asyncio.run(_switches(card, in_bulk=False))


async def _switches(card: Card, *, in_bulk: bool) -> dict[str, float]:
    """The median time in which nobody ends a pass, from the last of one program to the first of the other."""
    needs_host_memory(card)
    ended: Passes = asyncio.Queue()
    quantum_s = BULK_QUANTUM_S if in_bulk else faults_quantum_s(card)
    with scheduler(card, quantum_s=quantum_s, grace_s=grace_s(card)) as paths:
        async with contextlib.AsyncExitStack() as stack:
            for name in NAMES:
                environment = under(card, paths, name=name) | {"NVSHARE_PREFETCH": str(int(in_bulk))}
                await stack.enter_async_context(_working(environment, each(card), name, ended))
            gaps, passes = await _gaps(ended)
            status = operator_client.ask_for(admin.Status, paths.operator_socket, admin.GetStatus())
    turns = {client.name: seat.turns for client in status.node.clients for seat in client.seats}
    gap = max(0.0, statistics.median(gaps) - (statistics.median(passes) if passes else 0.0)) / card.scale
    found = {"switch_s": gap, "switches": len(gaps), "bytes": each(card), "in_bulk": in_bulk}
    return found | {f"{name}_turns": turns.get(name, 0) for name in NAMES}


def faults_quantum_s(card: Card) -> int:
    """In a shorter turn no program would end more than one pass."""
    return 1 + _faults_s(card, each(card))


def grace_s(card: Card) -> int:
    """A pass is one kernel, which no drain can end. It must not be revoked while its memory comes in, not even on a
    card that is as slow as a prediction allows."""
    return min(MOST_GRACE_S, GRACE_S + math.ceil(prediction.UNKNOWN_FACTOR * _faults_s(card, each(card))))


def turns_by_faults_s(card: Card) -> int:
    """How long the turns of `switch_by_faults` take."""
    return TURNS * faults_quantum_s(card)


def filling_s(card: Card) -> int:
    """How long it takes to fill the card, with nvshare and without it."""
    return 2 * _faults_s(card, card.free_bytes)


def _faults_s(card: Card, size: int) -> int:
    return math.ceil(prediction.all_by_faults_s(card, size) * card.scale)


async def _gaps(ended: Passes) -> tuple[list[float], list[float]]:
    """Times between the passes of different programs, and of the same one. The first switch is not counted: memory that
    was never used comes in."""
    gaps: list[float] = []
    passes: list[float] = []
    last, who = _pass(await ended.get())
    while len(gaps) < SWITCHES + 1:
        now, name = _pass(await ended.get())
        (passes if name == who else gaps).append(now - last)
        last, who = now, name
    return gaps[1:], passes


def _pass(found: "tuple[float, str] | CommandError") -> tuple[float, str]:
    if isinstance(found, CommandError):
        raise found
    return found


def reserve(card: Card) -> dict[str, float]:
    """A program that fills what nvshare shows it, and the same memory without nvshare."""
    with scheduler(card) as paths:
        found = probe("fill", PASSES_S, environment=under(card, paths, name="full"))
    size = f"{found['bytes']:.0f}"
    without = probe("work", size, PASSES_S, environment=bare(card))
    return {"bytes": found["bytes"], "pass_s": found["mean_pass_s"], "bare_pass_s": without["mean_pass_s"]}


def each(card: Card) -> int:
    """The memory of each of two programs that do not fit together."""
    return int(card.free_bytes * PART) >> 20 << 20


def needs_host_memory(card: Card) -> None:
    """Raises SkippedError if the host could not take what is evicted."""
    needed = int(card.free_bytes * HOST_PART)
    if not card.is_simulated and host_memory(card)["available_bytes"] < needed:
        raise SkippedError(f"the host has less than {amount(needed)} for memory that is evicted")


def host_memory(card: Card) -> dict[str, float]:
    """What the host can take: of the machine and of this process's cgroup."""
    found = [_meminfo(), *_cgroup_limits(Path("/proc/self/cgroup").read_text())]
    return {"machine": 1, "available_bytes": min(found)}


def _meminfo() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def _cgroup_limits(text: str) -> list[float]:
    """The limits of this process's cgroup, as version 2 and version 1 tell them; what cannot be read limits nothing."""
    found = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            file = Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.max"
        elif "memory" in controllers.split(","):
            file = Path("/sys/fs/cgroup/memory") / path.lstrip("/") / "memory.limit_in_bytes"
        else:
            continue
        with contextlib.suppress(OSError, ValueError):
            found.append(float(int(file.read_text())))
    return found


@contextlib.asynccontextmanager
async def _working(environment: dict[str, str], size: int, name: str, ended: Passes) -> AsyncIterator[None]:
    """A program that works on its memory until it is ended; each pass that ends is put into the queue."""
    process = await asyncio.create_subprocess_exec(
        probe_path(), "work", str(size), FOREVER_S, env=environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    reading = asyncio.create_task(_read(process.stdout, name, ended))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reading


async def _read(stream: asyncio.StreamReader, name: str, ended: Passes) -> None:
    while line := (await stream.readline()).decode():
        kind, _, value = line.strip().partition(" ")
        if kind == "pass":
            ended.put_nowait((float(value), name))
        elif kind == "failed":
            ended.put_nowait(CommandError(value))
    ended.put_nowait(CommandError(f"the {name} program ended"))
