"""Events on pods: what is sent, and what keeps a node from flooding the API server."""

import asyncio

from kube.fake_apiserver import FakeApiServer
from nvshare.kube.client import Api, Server
from nvshare.kube.events import PodNote, Recorder


def note(pod: str = "u1", reason: str = "NotShared", message: str = "m", *, warning: bool = True) -> PodNote:
    return PodNote(pod=pod, label=f"team/{pod}", reason=reason, message=message, warning=warning)


def test_an_event_names_the_pod_and_says_its_piece() -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            recorder = Recorder(Api(server.address), "node-1")
            task = asyncio.create_task(recorder.run())
            assert recorder.note(note(message="unset LD_PRELOAD"))
            await server.until(lambda: bool(server.events))
            task.cancel()
            (event,) = server.events
            assert server.requests[0][:2] == ("POST", "/api/v1/namespaces/team/events")
            assert event["involvedObject"] | {"apiVersion": "v1"} == {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "team",
                "name": "u1",
                "uid": "u1",
            }
            assert (event["reason"], event["message"], event["type"]) == ("NotShared", "unset LD_PRELOAD", "Warning")

    asyncio.run(story())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def quiet_recorder(clock: Clock) -> Recorder:
    return Recorder(Api(Server(host="127.0.0.1", port=1, token_path=None, tls=False)), "node-1", clock=clock)


def test_the_same_thing_is_posted_at_once_in_ten_minutes() -> None:
    clock = Clock()
    recorder = quiet_recorder(clock)
    assert [recorder.note(note()), recorder.note(note()), recorder.note(note(message="other"))] == [True, False, True]
    clock.now = 601
    assert recorder.note(note())


def test_a_flood_is_cut_to_the_rate_and_counted() -> None:
    clock = Clock()
    recorder = quiet_recorder(clock)
    taken = sum(recorder.note(note(pod=f"u{number}")) for number in range(100))
    assert (taken, recorder.dropped) == (25, 75)
    clock.now = 2
    assert sum(recorder.note(note(pod=f"v{number}")) for number in range(100)) == 10


def test_memory_for_repetitions_is_bounded() -> None:
    clock = Clock()
    recorder = quiet_recorder(clock)
    for number in range(10_000):
        clock.now += 1
        recorder.note(note(pod=f"u{number}"))
    assert len(recorder._posted_at) <= 4096


def test_an_api_server_that_is_away_drops_events_and_nothing_else() -> None:
    async def story() -> None:
        recorder = quiet_recorder(Clock())
        task = asyncio.create_task(recorder.run())
        recorder.note(note())
        async with asyncio.timeout(60):
            while recorder.dropped == 0:
                await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()

    asyncio.run(story())
