"""The plugin and a kubelet that comes and goes, over real sockets."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest

from nvshare.inventory.gpus import Gpu
from nvshare.plugin.api import deviceplugin_pb2 as api
from nvshare.plugin.container import Options
from nvshare.plugin.lifecycle import Lifecycle
from nvshare.plugin.service import DevicePlugin
from nvshare.plugin.slots import POLICIES, offers
from plugin.fake_kubelet import FakeKubelet


@pytest.fixture
def directory() -> Iterator[Path]:
    # Not pytest's own: a socket's path may have no more than 107 characters.
    with TemporaryDirectory(prefix="nvs") as path:
        yield Path(path)


def make_plugin(gpus: int = 2, slots: int = 10, prepare: object = None) -> DevicePlugin:
    found = [Gpu(uuid=f"GPU-{number}", total_bytes=16 << 30, index=number, name="card") for number in range(gpus)]
    return DevicePlugin(
        offers(found, slots),
        POLICIES["spread"],
        Options(),
        prepare=prepare or (lambda: None),  # type: ignore[arg-type]
    )


@contextlib.asynccontextmanager
async def alive(plugin: DevicePlugin, directory: Path) -> AsyncIterator[Lifecycle]:
    lifecycle = Lifecycle(plugin, directory=directory, name="nvshare", resource="nvshare.com/gpu")
    task = asyncio.create_task(lifecycle.run())
    try:
        yield lifecycle
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def node(directory: Path, plugin: DevicePlugin) -> AsyncIterator[FakeKubelet]:
    kubelet = FakeKubelet(directory)
    await kubelet.start()
    try:
        async with alive(plugin, directory):
            yield kubelet
    finally:
        await kubelet.stop()


def test_slots_are_offered_and_options_told_both_ways(directory: Path) -> None:
    async def story() -> None:
        async with node(directory, make_plugin()) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 20)
            (request,) = kubelet.registrations
            assert (request.version, request.resource_name) == ("v1beta1", "nvshare.com/gpu")
            assert [path.name for path in directory.glob("nvshare*")] == [request.endpoint]
            assert request.options.get_preferred_allocation_available
            assert kubelet.options is not None
            assert kubelet.options.get_preferred_allocation_available
            assert not kubelet.options.pre_start_required

    asyncio.run(story())


def test_a_kubelet_that_comes_later_is_waited_for(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        kubelet = FakeKubelet(directory)
        async with alive(make_plugin(), directory):
            async with asyncio.timeout(60):
                while "Waiting for kubelet" not in caplog.text:
                    await asyncio.sleep(0)
            await kubelet.start()
            await kubelet.until(lambda: kubelet.allocatable == 20)
        await kubelet.stop()

    asyncio.run(story())


@pytest.mark.parametrize("leave_socket", [False, True], ids=["ended", "killed"])
def test_a_kubelet_restart_is_survived(directory: Path, leave_socket: bool) -> None:
    async def story() -> None:
        plugin = make_plugin()
        async with node(directory, plugin) as kubelet:
            for is_noticed in (True, False, True, False):
                await kubelet.until(lambda: kubelet.allocatable == 20)
                await kubelet.stop(leave_socket=leave_socket)
                async with asyncio.timeout(60):
                    while is_noticed and plugin.streams:
                        await asyncio.sleep(0.001)
                kubelet.history.clear()
                await kubelet.start()
                await kubelet.until(lambda: kubelet.allocatable == 20)
                # It must stay: an old stream's late end would drop it to nothing. So the next change is one of ours.
                await kubelet.drop_plugin()
                await kubelet.until(lambda: kubelet.history[1:] == [0, 20])
                assert kubelet.history == [20, 0, 20]

    asyncio.run(story())


def test_a_kubelet_that_drops_the_stream_and_stays_is_registered_with_again(directory: Path) -> None:
    async def story() -> None:
        async with node(directory, make_plugin()) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 20)
            await kubelet.drop_plugin()
            await kubelet.until(lambda: len(kubelet.registrations) == 2 and kubelet.allocatable == 20)

    asyncio.run(story())


def test_our_own_socket_removed_alone_is_served_again(directory: Path) -> None:
    async def story() -> None:
        async with node(directory, make_plugin()) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 20)
            (directory / kubelet.registrations[0].endpoint).unlink()
            await kubelet.until(lambda: len(kubelet.registrations) == 2 and kubelet.allocatable == 20)

    asyncio.run(story())


def test_kubelet_may_notice_the_end_of_a_stream_while_it_registers_the_next_one(directory: Path) -> None:
    async def story() -> None:
        async with node(directory, make_plugin()) as kubelet:
            for number, is_late in enumerate((True, False, True, False), 1):
                await kubelet.until(lambda number=number: len(kubelet.registrations) == number)  # type: ignore[misc]
                await kubelet.until(lambda: kubelet.allocatable == 20)
                kubelet.notices_ends_late = is_late
                (directory / kubelet.registrations[-1].endpoint).unlink()
            await kubelet.until(lambda: len(kubelet.registrations) == 5 and kubelet.allocatable == 20)

    asyncio.run(story())


def test_sockets_of_killed_plugins_are_removed_and_those_of_others_stay(directory: Path) -> None:
    async def story() -> None:
        kubelet = FakeKubelet(directory)
        await kubelet.start()
        alive_socket = socket.socket(socket.AF_UNIX)
        for name in ("nvshare.sock", "nvshare-0.sock", "nvidia-gpu.sock"):
            with socket.socket(socket.AF_UNIX) as killed:
                killed.bind(str(directory / name))
        alive_socket.bind(str(directory / "nvshare-1.sock"))
        alive_socket.listen()
        async with alive(make_plugin(), directory):
            await kubelet.until(lambda: kubelet.allocatable == 20)
            names = {path.name for path in directory.iterdir()}
            assert names == {"kubelet.sock", "nvidia-gpu.sock", "nvshare-1.sock", kubelet.registrations[0].endpoint}
        alive_socket.close()
        await kubelet.stop()

    asyncio.run(story())


def test_health_reaches_kubelet_and_so_does_recovery(directory: Path) -> None:
    async def story() -> None:
        plugin = make_plugin()
        async with node(directory, plugin) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 20)
            await plugin.set_unhealthy(frozenset({"GPU-1"}))
            await kubelet.until(lambda: kubelet.allocatable == 10)
            assert len(kubelet.devices) == 20
            await plugin.set_unhealthy(frozenset())
            await kubelet.until(lambda: kubelet.allocatable == 20)
            assert len(kubelet.registrations) == 1

    asyncio.run(story())


def test_allocate_and_the_preference_are_answered(directory: Path) -> None:
    async def story() -> None:
        async with node(directory, make_plugin()) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 20)
            wish = api.ContainerPreferredAllocationRequest(available_deviceIDs=list(kubelet.devices), allocation_size=2)
            advice = await kubelet.stub.GetPreferredAllocation(
                api.PreferredAllocationRequest(container_requests=[wish])
            )
            slots = list(advice.container_responses[0].deviceIDs)
            assert slots == ["GPU-0__0", "GPU-1__0"]
            answer = await allocate(kubelet, ["GPU-1__0", "GPU-0__0", "GPU-1__9"])
            assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
            assert [(mount.host_path, mount.container_path, mount.read_only) for mount in answer.mounts] == [
                ("/var/run/nvshare", "/var/run/nvshare", True),
                ("/var/run/nvshare/lib", "/usr/lib/nvshare", True),
            ]

    asyncio.run(story())


async def advice(kubelet: FakeKubelet, wish: api.ContainerPreferredAllocationRequest) -> list[str]:
    request = api.PreferredAllocationRequest(container_requests=[wish])
    answer = await kubelet.stub.GetPreferredAllocation(request)
    return list(answer.container_responses[0].deviceIDs)


async def allocate(kubelet: FakeKubelet, slots: list[str]) -> api.ContainerAllocateResponse:
    wish = api.ContainerAllocateRequest(devices_ids=slots)
    answer = await kubelet.stub.Allocate(api.AllocateRequest(container_requests=[wish]))
    made: api.ContainerAllocateResponse = answer.container_responses[0]
    return made


def test_a_strange_slot_fails_allocate_but_not_the_advice(directory: Path) -> None:
    async def story() -> None:
        async with node(directory, make_plugin()) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 20)
            with pytest.raises(grpc.aio.AioRpcError, match="GPU-7"):
                await allocate(kubelet, ["GPU-7__0"])
            wish = api.ContainerPreferredAllocationRequest(available_deviceIDs=["rubbish"], allocation_size=1)
            advice = await kubelet.stub.GetPreferredAllocation(
                api.PreferredAllocationRequest(container_requests=[wish])
            )
            assert list(advice.container_responses[0].deviceIDs) == []

    asyncio.run(story())


def test_a_library_that_cannot_be_installed_fails_the_pod_with_the_reason(directory: Path) -> None:
    def prepare() -> None:
        raise OSError("read-only file system")

    async def story() -> None:
        async with node(directory, make_plugin(prepare=prepare)) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 20)
            with pytest.raises(grpc.aio.AioRpcError, match="read-only file system"):
                await allocate(kubelet, ["GPU-0__0"])

    asyncio.run(story())


def test_sixteen_gpus_of_a_hundred_slots_are_offered_and_allocate_is_quick(directory: Path) -> None:
    async def story() -> None:
        async with node(directory, make_plugin(16, 100)) as kubelet:
            await kubelet.until(lambda: kubelet.allocatable == 1600)
            floor, took = 0.0, 0.0
            for number in range(50):  # Both are in this process: its processor time contains no waiting for others.
                began = time.process_time()
                await kubelet.stub.GetDevicePluginOptions(api.Empty())  # a call that computes nothing
                floor += time.process_time() - began
                began = time.process_time()
                await allocate(kubelet, [f"GPU-{number % 16}__{number}"])
                took += time.process_time() - began
            assert took < 3 * floor, f"Allocate takes {took / 50:.4f} s, a call without work {floor / 50:.4f} s"

    asyncio.run(story())
