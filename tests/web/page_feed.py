"""The live page without a scheduler: a test says what it is told, status by status."""

from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from nvshare import admin
from nvshare.core.snapshots.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot, SeatState, Snapshot
from nvshare.scheduler.http import page as served
from nvshare.status_document import Steps, status_document, steps_document

GIB = 1 << 30
SECOND = 1_000_000_000
FOLDER = Path(served.__file__).parent
BEGIN = 1_800_000_000.0

# Stands in for the browser's; what a test sends comes to the page as from the scheduler, and layout shifts are kept.
SCRIPT = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    window.shifts.push({ value: entry.value, nodes: entry.sources.map((one) => one.node?.outerHTML ?? "a text") });
  }
}).observe({ type: "layout-shift" });
window.EventSource = class extends EventTarget {
  constructor() {
    super();
    window.feed = this;
    setTimeout(() => this.onopen());
  }
  close() {}
};
window.tell = (kind, data) => window.feed.dispatchEvent(new MessageEvent(kind, { data }));
window.drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
"""


def open_page(browser: Any, **options: Any) -> Any:
    """A page that waits for `tell`."""
    page = browser.new_page(**options)
    page.add_init_script(SCRIPT)
    page.route("**/*", _serve)
    page.goto("http://page.test/")
    page.wait_for_function("window.feed !== undefined")
    return page


def tell(page: Any, status: admin.Status) -> None:
    """A status, and wait until it is drawn."""
    data = msgspec.json.encode(status_document(status)).decode()
    page.evaluate("async (data) => { tell('status', data); await drawn(); }", data)


def tell_past(page: Any) -> None:
    """What comes first: nothing has happened before."""
    tell_steps(page, Steps([], [], is_past=True))


def tell_steps(page: Any, steps: Steps) -> None:
    data = msgspec.json.encode(steps_document(steps)).decode()
    page.evaluate("async (data) => { tell('steps', data); await drawn(); }", data)


def _serve(route: Any) -> None:
    name, kind = served.ASSETS[route.request.url.removeprefix("http://page.test")]
    route.fulfill(body=(FOLDER / name).read_bytes(), content_type=kind)


def status_at(second: int, *, cards: int, programs: int) -> admin.Status:
    """A machine on whose GPUs programs take turns of three seconds, in the given second. Between two turns nobody runs
    for a second; sometimes a holder is idle, everybody is idle, or figures get longer."""
    uuids = [f"GPU-{UUID(int=0xA0 << 96 | number)}" for number in range(cards)]
    seats: dict[str, list[tuple[int, SeatSnapshot]]] = {uuid: [] for uuid in uuids}
    for number in range(programs):
        uuid = uuids[number % cards]
        seats[uuid].append((number, _seat(uuid, number, len(seats[uuid]), second)))
    clients = tuple(
        ClientSnapshot(
            0xA000 + number,
            f"run/{number}",
            f"run {number:08x}",
            f"a-program-with-a-long-name-{number}",
            40_000 + number,
            0,
            100,
            (seat,),
        )
        for one in seats.values()
        for number, seat in _in_turn(one, second)
    )
    gpus = tuple(_gpu(index, uuid, clients) for index, uuid in enumerate(uuids))
    return admin.Status("0.1.0", BEGIN, BEGIN + second, Snapshot(True, False, "fcfs", gpus, clients), "node7")


def _seat(uuid: str, number: int, place: int, second: int) -> SeatSnapshot:
    gib = 1 + number % 3 * 4 + second % 7 / 7
    return SeatSnapshot(
        gpu=uuid,
        state="idle",
        is_running=False,
        since_ns=second % 130 * SECOND,
        place=place,
        memory_allocated=int((gib + 0.2) * GIB),
        swappable=int(gib * GIB),
        unswappable=GIB // 5,
        contexts=1,
        limit=8 * GIB if number % 2 else 0,
        budget=None,
        turns=second,
        held_ns=second * SECOND,
        waited_ns=second * 7 * SECOND if number else 0,
        last_scheduled_ns=SECOND,
        is_idle=False,
        need=int(gib * GIB),
    )


def _in_turn(seats: list[tuple[int, SeatSnapshot]], second: int) -> list[tuple[int, SeatSnapshot]]:
    """One runs, or is told to stop, or nobody does; the others wait."""
    turn, phase = divmod(second, 4)
    made = []
    for number, seat in seats:
        behind = (seat.place - turn) % len(seats)
        state: SeatState = "idle" if turn % 5 == 4 else "waiting"
        if behind == 0:
            state = ("running", "running", "dropping", "idle")[phase]
        holds = state in ("running", "dropping")
        place = behind if state == "waiting" else 0
        changed = msgspec.structs.replace(
            seat,
            state=state,
            is_running=holds,
            is_idle=state == "running" and phase == 1,
            place=place,
            expected_start_ns=place * 40 * SECOND if 0 < place < 16 else None,
        )
        made.append((number, changed))
    return made


def _gpu(index: int, uuid: str, clients: tuple[ClientSnapshot, ...]) -> GpuSnapshot:
    seats = [seat for client in clients for seat in client.seats if seat.gpu == uuid]
    running = sum(seat.swappable for seat in seats if seat.is_running)
    fixed = sum(seat.unswappable for seat in seats) + 4 * GIB // 10
    states = [seat.state for seat in seats]
    return GpuSnapshot(
        uuid,
        40 * GIB,
        36 * GIB,
        max(0, 36 * GIB - running - fixed),
        running,
        fixed,
        GIB // 2,
        states.count("running") + states.count("dropping"),
        states.count("waiting"),
        "auto",
        50 * SECOND,
        9 * SECOND,
        False,
        index=index,
        name="NVIDIA A100-SXM4-40GB",
    )
