"""One driver after another, or two at once: what the first left, the next takes over or removes."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

from dra.fake_kubelet import FakeKubelet
from dra.fake_resource_api import FakeResourceApi
from dra.whole_driver import claim, command, driver, environment, files


def test_a_claim_stays_prepared_across_a_restart_and_while_the_api_server_is_away(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server:
            async with driver(place, server) as kubelet:
                name, uid = claim(server, "u-1")
                before = (await kubelet.prepare((name, uid)))[uid]
            async with driver(place, server) as kubelet:
                server.refuse = (503, "away")
                assert (await kubelet.prepare((name, uid)))[uid] == before
                server.refuse = None
                assert await kubelet.unprepare((name, uid)) == {uid: ""}
        assert files(place) == set()

    asyncio.run(story())


def test_what_is_left_of_a_claim_that_is_gone_is_removed_as_soon_as_the_api_server_answers(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server:
            async with driver(place, server) as kubelet:
                gone, replaced, freed, elsewhere, kept = claimed = [claim(server, f"u-{at}") for at in range(5)]
                assert all(answer.error == "" for answer in (await kubelet.prepare(*claimed)).values())
            del server.claims[gone[0]]
            server.claims[replaced[0]] = b'{"metadata": {"uid": "u-9"}}'
            server.claims[freed[0]] = b'{"metadata": {"uid": "u-2"}, "status": {}}'
            server.claims[elsewhere[0]] = server.claims[elsewhere[0]].replace(b"node-1", b"node-2")
            server.refuse_claims = (503, "away")
            asked = len(server.requests)
            async with driver(place, server):
                await server.until(lambda: _asked_for_claims(server, asked) >= 2)
                assert len(files(place)) == 10
                server.refuse_claims = None
                await _until_files(place, {"u-4.json", "nvshare.com-claim_u-4.json"})
                assert kept[1] == "u-4"

    asyncio.run(story())


def _asked_for_claims(server: FakeResourceApi, since: int) -> int:
    return sum("/resourceclaims/" in path for _, path, _ in server.requests[since:])


async def _until_files(place: Path, wanted: set[str], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while files(place) != wanted:
            await asyncio.sleep(0.02)


def test_two_instances_serve_during_an_update_and_an_old_kubelet_is_served_too(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as old:
            name, uid = claim(server, "u-1")
            await old.prepare((name, uid))
            async with _second(place, server) as new:
                assert (await new.prepare((name, uid)))[uid].error == ""
                assert await new.unprepare((name, uid)) == {uid: ""}
                assert files(place) == set()

    asyncio.run(story())


def test_each_of_two_instances_prepares_again_what_the_other_has_unprepared(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as old:
            first, second = [device["name"] for device in server.devices()]
            name, uid = claim(server, "u-1")
            both = {"u-1.json", "nvshare.com-claim_u-1.json"}
            await old.prepare((name, uid))
            await server.until(lambda: [device["name"] for device in server.devices()] == [second, first])
            async with _second(place, server) as new:
                await old.unprepare((name, uid))
                assert files(place) == set()
                # kube-scheduler may have allocated another device meanwhile.
                name, uid = claim(server, "u-1", [device["name"] for device in server.devices()].index(second))
                for each, other in ((new, old), (old, new)):
                    answer = (await each.prepare((name, uid)))[uid]
                    assert (answer.error, [device.device_name for device in answer.devices]) == ("", [second])
                    assert files(place) == both
                    await other.unprepare((name, uid))
                    assert files(place) == set()
            assert (await old.prepare((name, uid)))[uid].error == ""
            assert files(place) == both
            # The devices are in the order of the load that the files show.
            await server.until(lambda: [device["name"] for device in server.devices()] == [first, second])

    asyncio.run(story())


def test_a_cdi_file_that_is_gone_is_written_by_the_next_prepare(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            name, uid = claim(server, "u-1")
            await kubelet.prepare((name, uid))
            (place / "cdi/nvshare.com-claim_u-1.json").unlink()
            server.refuse_claims = (503, "away")
            assert (await kubelet.prepare((name, uid)))[uid].error == ""
            assert files(place) == {"u-1.json", "nvshare.com-claim_u-1.json"}

    asyncio.run(story())


@contextlib.asynccontextmanager
async def _second(place: Path, server: FakeResourceApi) -> AsyncIterator[FakeKubelet]:
    """A second instance beside the first, called as an old kubelet does."""
    program = await asyncio.create_subprocess_exec(
        *command(place, server.port, "--instance=two"), env=environment(place)
    )
    kubelet = FakeKubelet(place / "registry", "v1beta1.DRAPlugin")
    try:
        await kubelet.find("gpu.nvshare.com-two-reg.sock")
        yield kubelet
    finally:
        await kubelet.stop()
        program.terminate()
        assert await program.wait() == 0


def test_sockets_of_a_driver_that_was_killed_are_removed_and_those_of_a_live_one_stay(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server, "--instance=alive") as alive:
            dead = [place / "registry/gpu.nvshare.com-dead-reg.sock", place / "plugins/gpu.nvshare.com/dra-dead.sock"]
            others = [place / "registry/another.example-reg.sock", place / "plugins/gpu.nvshare.com/other.sock"]
            for path in dead + others:
                with socket.socket(socket.AF_UNIX) as left:
                    left.bind(str(path))
            async with driver(place, server) as kubelet:
                await _until_gone(dead)
                assert all(path.exists() for path in others)
                name, uid = claim(server, "u-1")
                for each in (alive, kubelet):
                    assert (await each.prepare((name, uid)))[uid].error == ""
                await kubelet.unprepare((name, uid))

    asyncio.run(story())


async def _until_gone(paths: list[Path], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while any(path.exists() for path in paths):
            await asyncio.sleep(0.02)
