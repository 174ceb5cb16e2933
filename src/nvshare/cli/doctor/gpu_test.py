"""`nvshare doctor --gpu`: the whole chain on each GPU, real or simulated: allocate, launch, limit, switch.

The scheduler is a private one and the programs are small CUDA programs, so that nobody else is disturbed beyond the
minute that this takes; on a GPU that others use, the sizes follow what is free."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.demo.limit import ANSWER_TIMEOUT_S, Allocator, change_limit
from nvshare.cli.doctor.checks import Finding
from nvshare.cli.errors import CommandError
from nvshare.cli.run import private_scheduler
from nvshare.cli.run.cleanup import temporary_directory
from nvshare.cli.run.environment import ProgramSettings, shared
from nvshare.cli.run.native_files import demo_program, library
from nvshare.core.model import MIB
from nvshare.core.snapshot import ClientSnapshot
from nvshare.inventory.gpus import Gpu
from nvshare.inventory.nvml import Nvml, NvmlUnavailableError

TURNS = 2
SWITCH_S = 60.0
SLOWEST_BYTES_S = 2 << 30
"""Page faults on the slowest supported bus; a switch of a large card takes longer."""


async def self_test(environment: dict[str, str]) -> AsyncIterator[Finding]:
    """Findings for every GPU, one after another."""
    try:
        with Nvml() as nvml:
            gpus = [(gpu, nvml.sample(gpu.uuid).used_bytes) for gpu in nvml.discover()]
    except NvmlUnavailableError as error:
        yield Finding("fail", str(error), "the self-test needs NVML to find the GPUs")
        return
    if not gpus:
        yield Finding("fail", "NVML reports no GPU")
    for gpu, used in gpus:
        with temporary_directory() as folder:
            async for finding in _SelfTest(gpu, gpu.total_bytes - used, folder, environment).run():
                yield finding


class _SelfTest:
    """One GPU's."""

    def __init__(self, gpu: Gpu, free: int, folder: Path, environment: dict[str, str]) -> None:
        self._gpu = gpu
        self._unit = max(MIB, free // 16 // MIB * MIB)
        self._paths = private_scheduler.SchedulerPaths(str(folder))
        self._environment = {**environment, "CUDA_VISIBLE_DEVICES": gpu.uuid}
        self._environment.pop("LD_PRELOAD", None)

    async def run(self) -> AsyncIterator[Finding]:
        name = self._gpu.uuid[:12]
        try:
            descriptor = private_scheduler.join(
                self._paths, self._environment, ("--switch-time-mode", "fixed", "--switch-time-fixed", "1")
            )
        except CommandError as error:
            yield Finding("fail", f"{name}: {error}")
            return
        try:
            for step in (self._allocate, self._limit, self._switch):
                began = time.monotonic()
                text = await self._tried(step)
                took = f"({time.monotonic() - began:.1f} s)"
                what = (step.__doc__ or "").strip().rstrip(".")
                yield (
                    Finding("fail", f"{name}: {what}: {text} {took}")
                    if text
                    else Finding("ok", f"{name}: {what} {took}")
                )
        finally:
            private_scheduler.leave(self._paths, descriptor)

    @staticmethod
    async def _tried(step: object) -> str:
        """Empty if it succeeded, else the failure."""
        try:
            return str(await step())  # type: ignore[operator]
        except TimeoutError:
            return "a program did not answer in time"
        except (operator_client.UnreachableError, operator_client.RefusedError, CommandError, OSError) as error:
            return str(error)

    def _shared(self, name: str, limit: int | None = None) -> dict[str, str]:
        settings = ProgramSettings(limit_bytes=limit, name=name)
        return shared(self._environment, library=library(), socket=self._paths.socket, settings=settings)

    async def _allocate(self) -> str:
        """a program allocates and launches under nvshare"""
        async with Allocator(self._shared("alone")) as program:
            for command in (f"alloc {self._unit}", "work", "free"):
                answer = await program.say(command)
                if answer != "ok":
                    return f"{command}: {answer or 'the program ended'}"
            if self._client(program.pid) is None:
                return "the scheduler does not know the program: is the library preloaded?"
        return ""

    async def _limit(self) -> str:
        """an allocation over the limit fails, and succeeds after the limit is raised"""
        async with Allocator(self._shared("limited", 2 * self._unit)) as program:
            answer = await program.say(f"alloc {4 * self._unit}")
            if answer != "CUDA_ERROR_OUT_OF_MEMORY":
                return f"an allocation over the limit returned {answer!r}"
            shown = (await program.say("info")).split()
            if shown[-1:] != [str(2 * self._unit)]:
                return f"the program sees {shown} bytes instead of its limit"
            await change_limit(self._paths.operator_socket, program, 8 * self._unit)
            answer = await program.say(f"alloc {4 * self._unit}")
            return "" if answer == "ok" else f"after the limit was raised: {answer!r}"

    async def _switch(self) -> str:
        """two programs that do not fit together take turns"""
        async with contextlib.AsyncExitStack() as stack:
            for name in ("first", "second"):
                await stack.enter_async_context(_worker(self._shared(name), 10 * self._unit))
            timeout_s = SWITCH_S + 2 * TURNS * 10 * self._unit / SLOWEST_BYTES_S
            deadline = time.monotonic() + timeout_s
            turns: dict[str, int] = {}
            while time.monotonic() < deadline:
                turns = self._turns()
                if len(turns) == 2 and min(turns.values()) >= TURNS:
                    return ""
                await asyncio.sleep(0.2)
            return f"turns in {timeout_s:.0f} s: {turns or 'none'}"

    def _status(self) -> admin.Status:
        return operator_client.ask_for(admin.Status, self._paths.operator_socket, admin.GetStatus())

    def _client(self, pid: int) -> ClientSnapshot | None:
        return next((client for client in self._status().node.clients if client.pid == pid), None)

    def _turns(self) -> dict[str, int]:
        return {client.name: seat.turns for client in self._status().node.clients for seat in client.seats}


@contextlib.asynccontextmanager
async def _worker(environment: dict[str, str], memory: int) -> AsyncIterator[None]:
    """A program that works on its memory until it is ended; ready once it has the memory."""
    process = await asyncio.create_subprocess_exec(
        demo_program("worker"),
        *(str(memory), "1000000", "1", "1", "0"),
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    reading = None
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            line = (await process.stdout.readline()).decode().strip()
        if not line.startswith("ready"):
            raise CommandError(f"a program could not start: {line or 'it ended'}")
        reading = asyncio.create_task(_drain(process.stdout))
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass
