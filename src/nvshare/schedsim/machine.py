"""One simulated machine: cards, programs, and the core that the daemon runs. Time jumps from event to event."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from nvshare.core import events as ev
from nvshare.core.actions import Action
from nvshare.core.model import SECOND, Settings
from nvshare.core.node import Node
from nvshare.record import Record
from nvshare.schedsim.card import Card, CardModel
from nvshare.schedsim.gates import GateName
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.program import Doing, End, Program

MAX_STEPS = 20_000_000
"""A simulation that takes more has lost its way."""


class Stretch(Record, frozen=True):
    """What one program did for a while, in seconds."""

    job: int
    begin: float
    end: float
    doing: Doing


class Ended(Record, frozen=True):
    """How one program fared."""

    name: str
    gpu: str
    finished_s: float
    alone_s: float
    longest_wait_s: float
    turns: int
    responses_s: tuple[float, ...] = ()
    """Of each burst of an interactive job."""
    end: End = "finished"
    most_held: int = 0
    """Bytes that it kept on the host because of its limit, at most."""
    blocked_by: str = ""
    """The job of whose memory the host could not take a part, so that this one had to wait."""

    @property
    def slowdown(self) -> float:
        return self.finished_s / self.alone_s


class Outcome(Record, frozen=True):
    makespan_s: float
    jobs: tuple[Ended, ...]
    moved_gb: float
    """To the cards."""
    switches: int
    longest_wait_s: float
    stretches: tuple[Stretch, ...]
    gpu_busy: float
    """GPU seconds of work done per second and card."""
    pushed_gb: float = 0.0
    """To the host in bulk, by those who had to leave."""


class Machine:
    """Runs jobs to their ends under given settings and one kind of gate."""

    def __init__(
        self,
        cards: dict[str, CardModel],
        jobs: list[Job],
        settings: Settings,
        *,
        gate: GateName,
        is_plain: bool = False,
        may_oversubscribe: bool = True,
        is_host_counted: bool = True,
    ) -> None:
        """Without `may_oversubscribe`, a job whose memory is more than the card has for it is refused, as libnvshare
        does by default."""
        self.now = 0
        self.may_oversubscribe = may_oversubscribe
        self.is_host_counted = is_host_counted and gate == "nvshare"
        if gate != "nvshare":  # only our library moves memory in bulk
            cards = {name: replace(model, link=None) for name, model in cards.items()}
        self.cards = {name: Card(model) for name, model in cards.items()}
        self.node = Node(settings, epoch=1)
        self.programs: dict[int, Program] = {}
        self.observers: list[Callable[[int, Iterable[Action]], None]] = []
        """They see the actions of each step of the core."""
        self._is_plain = is_plain
        """Plain device memory: all of it is on the card from the start."""
        self._calls: list[tuple[int, int, tuple[int, str]]] = []
        self._order = 0
        self._posted: deque[ev.Event] = deque()
        self._doing: dict[int, tuple[int, Doing]] = {}
        self._stretches: list[Stretch] = []
        self._ends: dict[int, int] = {}
        uuids = {name: f"GPU-{UUID(int=number)}" for number, name in enumerate(cards, 1)}
        for name, model in cards.items():
            self.post(ev.GpuFound(uuids[name], model.size, link_bytes_per_s=round(model.link or 0)))
        for key, job in enumerate(jobs, 1):
            places = {uuids[name]: self.cards[name] for name in job.gpus}
            self.programs[key] = Program(key, job, places, gate, self)
            self.call_at(round(job.arrives_s * SECOND), (key, "start"))

    # What programs ask for.

    def post(self, event: ev.Event) -> None:
        self._posted.append(event)

    def call_at(self, when: int, call: tuple[int, str]) -> None:
        self._order += 1
        heapq.heappush(self._calls, (when, self._order, call))

    def note_doing(self, key: int, doing: Doing | None) -> None:
        before = self._doing.pop(key, None)
        if before is not None and before[0] < self.now:
            self._stretches.append(Stretch(key, before[0] / SECOND, self.now / SECOND, before[1]))
        if doing is None:
            self._ends[key] = self.now
        else:
            self._doing[key] = (self.now, doing)

    # The course of events.

    def run(self, until_s: float = inf) -> Outcome:
        """Until every program has ended, or until a time: quanta that are shorter than it takes to bring memory in get
        no work done. A job that has not ended then counts as if it ended then."""
        for _ in range(MAX_STEPS):
            self.talk()
            if self.now > until_s * SECOND:
                self._ends |= {key: self.now for key in self.programs if key not in self._ends}
            if len(self._ends) == len(self.programs):
                return self._outcome()
            self._step()
        raise AssertionError("the simulation does not end")

    def _step(self) -> None:
        """On to the next moment at which anything happens, and let it happen."""
        times = [card.next_change() for card in self.cards.values()]
        times += [self.node.next_deadline(), self._calls[0][0] if self._calls else None]
        self.now = max(self.now, min(time for time in times if time is not None))
        for card in self.cards.values():
            card.advance(self.now)
            for key in card.finished():
                self.programs[key].finish(card)
            for key in card.beyond_host():
                if self.programs[key].end is None:
                    self.programs[key].leave("killed")
        self._note_loaded()
        while self._calls and self._calls[0][0] <= self.now:
            key, method = heapq.heappop(self._calls)[2]
            self._call(self.programs[key], method)
        deadline = self.node.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.post(ev.AlarmRang())

    def _call(self, program: Program, method: str) -> None:
        if method == "start":
            for card in program.cards:
                card.add(program.key, program.job.used, host=program.job.host_memory, is_loaded=self._is_plain)
        if program.end is None:
            getattr(program if hasattr(program, method) else program.gate, method)()

    def talk(self) -> None:
        """Deliver messages in both directions until there are none."""
        while self._posted:
            event = self._posted.popleft()
            if isinstance(event, ev.ClientLeft):
                for card in self.programs[event.client].cards:
                    card.remove(event.client)
            actions = self.node.handle(self.now, event)
            for observe in self.observers:
                observe(self.now, actions)
            for action in actions:
                client: Any = getattr(action, "client", None)
                if client is not None and self.programs[client].end is None:
                    self.programs[client].hear(action)

    def _note_loaded(self) -> None:
        for key, (_, doing) in list(self._doing.items()):
            if doing == "loading":
                self.programs[key].look_at_loads()

    def _outcome(self) -> Outcome:
        jobs = tuple(
            Ended(
                name=program.job.name,
                gpu=program.job.gpu,
                finished_s=self._ends[key] / SECOND - program.job.arrives_s,
                alone_s=program.job.alone_s,
                longest_wait_s=program.longest_wait / SECOND,
                turns=program.turns,
                responses_s=tuple(response / SECOND for response in program.responses),
                end=program.end or "finished",
                most_held=program.most_held,
                blocked_by=self.programs[program.blocked.holder].name if program.blocked is not None else "",
            )
            for key, program in self.programs.items()
        )
        makespan_s = max(self._ends.values()) / SECOND
        return Outcome(
            makespan_s=makespan_s,
            jobs=jobs,
            moved_gb=sum(card.moved_bytes for card in self.cards.values()) / 1e9,
            switches=sum(job.turns for job in jobs),
            longest_wait_s=max(job.longest_wait_s for job in jobs),
            stretches=tuple(self._stretches),
            gpu_busy=sum(card.busy_s for card in self.cards.values()) / makespan_s / len(self.cards),
            pushed_gb=sum(card.pushed_bytes for card in self.cards.values()) / 1e9,
        )
