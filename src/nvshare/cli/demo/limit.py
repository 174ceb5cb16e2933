"""The demonstration's last part: a limit is changed while the program runs."""

import asyncio
import contextlib
import time
from typing import Self

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.demo.testbed import Testbed
from nvshare.cli.run.environment import ProgramSettings
from nvshare.cli.run.native_files import demo_program
from nvshare.core.model import GIB
from nvshare.record import Record

ANSWER_TIMEOUT_S = 20.0


class LimitStep(Record, frozen=True):
    """One change and its result."""

    did: str
    answer: str
    is_as_promised: bool


class Allocator:
    """The program that allocates and frees memory on command."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            demo_program("allocator"),
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        await self._line()
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def say(self, command: str) -> str:
        """One command, one answer; empty if the program has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        return await self._line()

    async def _line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return (await self._process.stdout.readline()).decode(errors="replace").strip()


async def limit_story(testbed: Testbed) -> list[LimitStep]:
    """A limit that is too low, then raised, then lowered below what the program has allocated."""
    run_id = "d" * 32
    with testbed.set_up(is_shared=True) as (environment, setup):
        assert setup.scheduler is not None
        settings = ProgramSettings(limit_bytes=GIB, name="limited", run_id=run_id)
        async with Allocator(setup.environment_of(environment, settings)) as program:
            steps = [
                await _try(program, "started with a limit of 1 GiB; allocates 2 GiB", "alloc 2Gi", is_granted=False)
            ]
            took = await change_limit(setup.scheduler.operator_socket, program, 4 * GIB)
            did = f"limit raised to 4 GiB (in force after {took * 1e3:.1f} ms); allocates again"
            steps.append(await _try(program, did, "alloc 2Gi", is_granted=True))
            took = await change_limit(setup.scheduler.operator_socket, program, GIB)
            did = f"limit lowered to 1 GiB (in force after {took * 1e3:.1f} ms); uses its 2 GiB"
            steps.append(await _try(program, did, "work", is_granted=True))
            steps.append(await _try(program, "allocates 1 GiB more", "alloc 1Gi", is_granted=False))
    return steps


async def _try(program: Allocator, did: str, command: str, *, is_granted: bool) -> LimitStep:
    answer = await program.say(command)
    expected = "ok" if is_granted else "CUDA_ERROR_OUT_OF_MEMORY"
    return LimitStep(did, answer or "the program ended", answer == expected)


async def change_limit(path: str, program: Allocator, limit: int) -> float:
    """Set the limit of a program's group; returns the seconds until the program sees it: then it is in force."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while (client := await asyncio.to_thread(_client_of, path, program.pid)) is None:
        if time.monotonic() > deadline:
            raise operator_client.RefusedError("the scheduler does not know the program: is the library preloaded?")
        await asyncio.sleep(0.01)
    began = time.monotonic()
    await asyncio.to_thread(operator_client.ask, path, admin.SetLimit(admin.client_name(client), limit))
    while (await program.say("info")).split()[-1:] != [str(limit)]:
        if time.monotonic() - began > ANSWER_TIMEOUT_S:
            raise TimeoutError
        await asyncio.sleep(0.001)
    return time.monotonic() - began


def _client_of(path: str, pid: int) -> int | None:
    status = operator_client.ask_for(admin.Status, path, admin.GetStatus())
    return next((client.id for client in status.node.clients if client.pid == pid), None)
