"""The live page in a real browser: what a person sees, on a desk and on a phone, by day and by night."""

import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from nvshare import admin
from nvshare.cli import operator_client
from support.waiting import wait_until
from web.players import CARDS, Player

Scheduler = Any
SHUT = os.environ.get("NVSHARE_TEST_NO_BROWSER") == "1"
pytestmark = pytest.mark.skipif(SHUT, reason="NVSHARE_TEST_NO_BROWSER=1")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def page(browser: Any, scheduler: Scheduler) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1100, "height": 900})
    opened.set_default_timeout(60_000)
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if _is_fault(message) else None)
    opened.goto(scheduler.url)
    yield opened
    opened.close()
    assert faults == []


def test_the_page_shows_who_runs_who_waits_and_why(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "train-a", gib=10) as first, Player(scheduler.socket, "train-b", gib=12) as second:
        first.ask()
        assert first.runs.wait(60)
        second.ask()
        gpu = page.locator("section.gpu", has_text=f"GPU-{CARDS[0]}")
        waiting = gpu.locator("tr", has=page.locator(".state.waiting"))
        # Each is waited for: at the end of a turn, nobody runs or nobody waits for a moment.
        waiting.locator(".why", has_text="needs 1").first.wait_for()
        gpu.locator(".queue", has_text="free beside train-").first.wait_for()
        page.wait_for_function("/^1 run, 1 wait \u2013 \\S+$/.test(document.title)")
        page.locator("#log li", has_text="taken back (quantum)").first.wait_for()
        assert "runs" in page.locator(".legend").inner_text()
        gpu.locator("canvas[aria-label*='running now: train-']").wait_for()


def test_the_page_shows_what_a_program_with_a_core_limit_got(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "capped", gib=4) as capped:
        capped.ask()
        assert capped.runs.wait(60)
        row = page.locator("tr", has_text="capped")
        row.wait_for()
        assert "limit:" not in row.inner_text()
        operator_client.ask(scheduler.operator_socket, admin.SetCoreLimit("capped", 30))
        row.locator("td[data-head=gpu]", has_text=re.compile("limit: [0-9]+ % of 30 %")).wait_for()


def test_the_lanes_are_drawn(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "alone", gib=4) as alone:
        alone.ask()
        assert alone.runs.wait(60)
        page.wait_for_function(
            """() => {
                const canvas = document.querySelector("canvas");
                if (!canvas || !canvas.height) return false;
                const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                let green = 0;
                for (let i = 0; i < data.length; i += 4) if (data[i] === 0x1a && data[i + 1] === 0x9a) green += 1;
                return green > 20;
            }""",
            timeout=60_000,
        )


def test_pointing_at_a_lane_tells_what_it_is(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "alone", gib=4) as alone:
        alone.ask()
        assert alone.runs.wait(60)
        page.locator("td.who", has_text="alone").wait_for()
        steps = itertools.count()
        wait_until(lambda: "ran for" in pointed_at_the_present(page, next(steps)), "the pointer tells it")


def pointed_at_the_present(page: Any, step: int) -> str:
    """What the tip says when the pointer moves at the right edge of the lanes, wherever they are on the page now."""
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 2 - step % 2, box["y"] + 22)
    return str(page.locator("#tip").inner_text())


def test_moves_are_drawn_and_told(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "mover", gib=4) as mover:
        mover.ask()
        assert mover.runs.wait(60)
        mover.report_move(3, 10, to_host=False)
        mover.report_move(2, 10, to_host=True)
        page.locator("#log li", has_text="moved 2.00 GiB").wait_for()
        page.locator("canvas").wait_for()  # A GPU is drawn when a status names it, up to a second after the steps.
        assert "memory moves" in page.locator(".legend").inner_text()
        wait_until(lambda: page.evaluate(DRAWN_MOVE)["rows"] == 6, "two lines of three pixels are drawn", 60)
        told = ("moved 3.0 GiB to the GPU in 10 s (0.3 GB/s)", "moved 2.0 GiB to the host in 10 s (0.2 GB/s)")
        wait_until(lambda: all(map(pointed_at_the_move(page).__contains__, told)), "the tip tells both")


DRAWN_MOVE = """() => {
    const canvas = document.querySelector("canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const rows = new Set(), columns = new Set();
    for (let i = 0; i < data.length; i += 4) {
        if (data[i] !== 0x0b || data[i + 1] !== 0x3d) continue;
        rows.add(Math.floor(i / 4 / canvas.width));
        columns.add(i / 4 % canvas.width);
    }
    const box = canvas.getBoundingClientRect(), all = [...columns];
    const middle = (Math.min(...all) + Math.max(...all)) / 2;
    return { rows: rows.size, x: box.x + middle * box.width / canvas.width, y: box.y + 22 };
}"""


def pointed_at_the_move(page: Any) -> str:
    """What the tip says when the pointer is where the move is drawn now: it wanders to the left."""
    drawn = page.evaluate(DRAWN_MOVE)
    page.mouse.move(drawn["x"], drawn["y"])
    return str(page.locator("#tip").inner_text())


def test_a_name_with_markup_in_it_is_only_text(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, HOSTILE, gib=1) as hostile:
        hostile.ask()
        page.locator("td.who", has_text=HOSTILE).wait_for()
        assert page.locator("td.who img").count() == 0


def test_a_limit_that_changes_is_seen_in_the_table_and_told(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "limited", gib=1) as limited:
        limited.ask()
        row = page.locator("tr", has_text="limited")
        row.locator("td", has_text="none").wait_for()
        client = row.locator("td.who small").inner_text().split(" ")[0]
        operator_client.ask(scheduler.operator_socket, admin.SetLimit(client, 3 << 30))
        row.locator("td", has_text="3.0 GiB").wait_for()
        page.locator("#log li.limit", has_text="Memory limit changed").wait_for()


def test_pausing_holds_the_picture_still(page: Any, browser: Any, scheduler: Scheduler) -> None:
    page.locator("#headline", has_text="up ").wait_for()
    page.locator("#pause").click()
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    page.locator("#headline", has_text="paused at").wait_for()
    before = page.locator("#headline").inner_text()
    with Player(scheduler.socket, "unseen", gib=1) as unseen:
        unseen.ask()
        assert unseen.runs.wait(60)
        witness = browser.new_page()
        witness.goto(scheduler.url)
        witness.locator("td.who", has_text="unseen").wait_for()
        witness.close()
        assert page.locator("td.who", has_text="unseen").count() == 0
        assert page.locator("#headline").inner_text() == before
        page.locator("#pause").click()
        page.locator("td.who", has_text="unseen").wait_for()


def test_a_scheduler_that_goes_away_is_said_so(page: Any, scheduler: Scheduler) -> None:
    page.locator("#headline", has_text="up ").wait_for()
    scheduler.process.terminate()
    page.locator("#headline.bad", has_text="does not answer").wait_for()


def test_gpus_are_listed_before_their_details(page: Any, scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "one", gib=4) as first, Player(scheduler.socket, "two", gib=4, card=1):
        first.ask()
        assert first.runs.wait(60)
        page.locator("#overview li", has_text="1 running, 0 waiting").wait_for()
        assert page.locator("#overview li").count() == 2


def test_a_page_without_a_connection_is_greyed(page: Any, scheduler: Scheduler) -> None:
    page.locator("#headline", has_text="up ").wait_for()
    scheduler.process.terminate()
    page.locator("body.stale").wait_for()


def _is_fault(message: Any) -> bool:
    """The browser's own words about a connection that was lost are no fault of the page."""
    return message.type == "error" and "net::ERR" not in message.text
