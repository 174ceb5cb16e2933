"""How the live page is laid out: at every width, by day and by night, with few and with many programs and GPUs.

The page is told statuses one by one, as fast as the browser draws them, so nothing here depends on a clock."""

import os
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nvshare import admin
from nvshare.core.events import WorkFinished, WorkResumed
from nvshare.status_document import Steps, changes_of
from web.page_feed import BEGIN, SECOND, open_page, status_at, tell, tell_past, tell_steps

SHUT = os.environ.get("NVSHARE_TEST_NO_BROWSER") == "1"
pytestmark = pytest.mark.skipif(SHUT, reason="NVSHARE_TEST_NO_BROWSER=1")
WIDTHS = (320, 375, 768, 900, 1024, 1440, 2560)
HEIGHT = 900
HAS_SCROLL_BARS = True

# What is wrong with the layout, in words.
FAULTS = """() => {
    const faults = [];
    if (document.documentElement.scrollWidth > innerWidth) faults.push("wider than the window");
    for (const one of document.querySelectorAll("td, .queue, .turn, h2, #overview li, .amounts span")) {
        const isColumn = one.offsetParent && one.offsetHeight > Math.max(120, 3 * one.offsetWidth);
        if (isColumn) faults.push(`a column of letters: ${one.textContent}`);
    }
    for (const one of document.querySelectorAll("td[data-head], .amounts span, .counts, .states div")) {
        if (one.offsetParent && one.scrollWidth > one.clientWidth + 1) faults.push(`cut: ${one.textContent}`);
    }
    for (const one of document.querySelectorAll("#overview li")) {
        const box = one.getBoundingClientRect();
        if (box.height > 32) faults.push(`more than a line: ${one.textContent}`);
        if (box.bottom > innerHeight) faults.push(`not on the first screen: ${one.textContent}`);
    }
    return [...new Set(faults)];
}"""
# Texts whose contrast is less than 4.5, as WCAG 2 computes it.
PALE = """() => {
    const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const ground = (one) => {
        for (let at = one; at; at = at.parentElement) {
            const colour = rgb(getComputedStyle(at).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
    };
    const opacity = (one) => {
        let all = 1;
        for (let at = one; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
        return all;
    };
    const pale = new Set();
    for (const one of document.querySelectorAll("body *")) {
        const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        if (!hasText || !one.offsetParent) continue;
        const [ink, paper] = [rgb(getComputedStyle(one).color), ground(one)];
        const mixed = ink.slice(0, 3).map((value, at) => value * opacity(one) + paper[at] * (1 - opacity(one)));
        const [low, high] = [light(mixed), light(paper)].sort((a, b) => a - b);
        if ((high + 0.05) / (low + 0.05) < 4.5) pale.add(`${one.className}: ${one.textContent}`);
    }
    return [...pale];
}"""
COLOURS = "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; })()"


@pytest.mark.parametrize("cards", [1, 8])
@pytest.mark.parametrize("programs", [0, 2, 10, 60])
def test_nothing_is_cut_or_wider_than_the_window(browser: Any, cards: int, programs: int) -> None:
    page = open_page(browser)
    tell_past(page)
    for second in (3599, 3601):
        tell(page, status_at(second, cards=cards, programs=programs))
    assert page.locator("td.who").count() == programs
    assert page.locator("#overview li").count() == (cards if cards > 1 else 0)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        ground, ink = map(_brightness, page.evaluate(COLOURS))
        assert (ground > ink) == (scheme == "light")
        assert abs(ground - ink) > 120
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            assert page.evaluate(FAULTS) == [], (width, scheme)
        assert page.evaluate(PALE) == [], scheme
    page.close()


@pytest.mark.parametrize(("cards", "programs", "width"), [(1, 2, 320), (1, 10, 1024), (8, 10, 768), (8, 60, 1440)])
def test_nothing_moves_while_programs_take_turns(browser: Any, cards: int, programs: int, width: int) -> None:
    page = open_page(browser, viewport={"width": width, "height": HEIGHT})
    tell_past(page)
    for second in range(55, 55 + int(os.environ.get("NVSHARE_TEST_PAGE_SECONDS", "25"))):
        tell(page, status_at(second, cards=cards, programs=programs))
    assert page.evaluate("window.shifts") == []
    # If something did move, it would be seen.
    page.evaluate("document.body.prepend(Object.assign(document.createElement('p'), { textContent: 'above all' }))")
    page.wait_for_function("window.shifts.length > 0")
    page.close()


def test_a_row_shows_what_a_program_and_its_group_had_beside_what_they_may_have(browser: Any) -> None:
    page = open_page(browser, viewport={"width": 1440, "height": HEIGHT})
    tell_past(page)
    shown = status_at(0, cards=1, programs=3)
    had = ((31.2, 25.0, 0), (60.0, 75.0, 30), (8.0, None, 0))
    groups = ("pod/a", "run/b", "pod/a")
    clients = tuple(
        replace(
            client,
            group=group,
            label=group,
            uid=1000,
            seats=(replace(client.seats[0], gpu_percent=got, due_percent=due, core_limit_percent=limit),),
        )
        for client, group, (got, due, limit) in zip(shown.node.clients, groups, had, strict=True)
    )
    tell(page, replace(shown, node=replace(shown.node, clients=clients)))
    cells = page.locator("td[data-head=gpu]")
    rows = page.locator("td.who .name").all_inner_texts()
    told = dict(zip((row[-1] for row in rows), cells.all_inner_texts(), strict=True))
    assert {name: text.split("\n") for name, text in told.items()} == {
        "0": ["31 % of 25 %", "all 2: 39 %"],
        "1": ["60 % of 75 %", "limit: 60 % of 30 %"],
        "2": ["8 %", "all 2: 39 %"],
    }
    assert cells.nth(rows.index("a-program-with-a-long-name-0")).get_attribute("title") == (
        "had 31 % of the GPU's time in the last 10 s; its weight of 100 makes 25 % its share;"
        " all programs of pod/a had 39 %; all programs of its user had 99 %"
    )
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        assert page.evaluate(FAULTS) == [], width
    page.close()


def test_a_program_that_is_paused_and_had_its_share_is_shown_as_paused(browser: Any) -> None:
    page = open_page(browser)
    tell_past(page)
    shown = status_at(0, cards=1, programs=1)
    (client,) = shown.node.clients
    for state, told in (("blocked", "held back"), ("paused", "paused")):
        seat = replace(client.seats[0], state=state, held_back_by="core limit", core_limit_percent=30)
        tell(page, replace(shown, node=replace(shown.node, clients=(replace(client, seats=(seat,)),))))
        assert page.locator(".state").inner_text() == told
    page.close()


@pytest.mark.parametrize("width", [1040, 1100])
def test_the_narrowest_table_shows_which_process_a_program_is(browser: Any, width: int) -> None:
    page = open_page(browser, viewport={"width": width, "height": HEIGHT})
    tell_past(page)
    tell(page, status_at(3599, cards=1, programs=1))
    assert page.evaluate("getComputedStyle(document.querySelector('thead')).display") != "none"
    detail = page.locator("td.who small")
    assert detail.inner_text() == "a000 · run 00000000 · pid 40000"
    assert detail.evaluate("(one) => one.scrollWidth <= one.clientWidth"), "cut"
    page.close()


def test_what_is_said_of_a_turn_is_not_cut(browser: Any) -> None:
    page = open_page(browser)
    tell_past(page)
    shown = status_at(1, cards=1, programs=10)
    gpu = replace(shown.node.gpus[0], utilization_percent=100.0, accounted_percent=100.0)
    gpu = replace(gpu, quantum_left_ns=100 * SECOND, quantum_ns=100 * SECOND, running=10, waiting=10, mode="balanced")
    tell(page, replace(shown, node=replace(shown.node, gpus=(gpu,))))
    turn = page.locator(".turn")
    assert "turn ends in" in turn.inner_text()
    assert turn.inner_text().endswith("busy 100 % (clients 100 %)")
    for width in (*WIDTHS[1:], 1040, 1100, 1279, 1280):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        assert turn.evaluate("(one) => one.scrollHeight <= one.clientHeight + 1"), width
    page.close()


def test_amounts_of_memory_are_in_gib_from_one_on(browser: Any) -> None:
    page = open_page(browser)
    sizes = page.evaluate(
        "async () => { const { size } = await import('/words.js'); return [2**30 - 1, 2**29].map(size); }"
    )
    assert sizes == ["1.0 GiB", "512 MiB"]
    page.close()


def test_the_memory_bar_has_the_colours_of_the_lanes(browser: Any) -> None:
    page = open_page(browser, viewport={"width": 1440, "height": HEIGHT})
    tell_past(page)
    tell(page, status_at(0, cards=1, programs=3))
    swatches = page.locator("td.who .swatch").evaluate_all(
        "all => all.map(one => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(swatches)) == 3
    running = page.locator(".gpu .bar rect.run")
    assert running.evaluate_all("all => all.map(one => getComputedStyle(one).fill)") == swatches[:1]
    assert running.locator("title").text_content() == "a-program-with-a-long-name-0 1.0 GiB"
    fixed = page.locator(".gpu .bar rect.fixed").evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
    assert sorted(fixed) == sorted(swatches)
    lanes = page.evaluate(
        """() => [0, 1, 2].map((row) => {
            const pen = document.querySelector("canvas").getContext("2d");
            return `rgb(${[...pen.getImageData(4, row * 34 + 8, 1, 1).data].slice(0, 3).join(", ")})`;
        })"""
    )
    assert lanes == swatches
    page.close()


def test_a_holder_without_work_has_a_paler_lane(browser: Any) -> None:
    page = open_page(browser, viewport={"width": 1440, "height": HEIGHT})
    tell_past(page)
    status = status_at(60, cards=1, programs=1)
    (client,) = status.node.clients
    tell(page, status)
    event = WorkFinished(client.id, client.seats[0].gpu)
    tell_steps(page, Steps([], changes_of(BEGIN + 30, event, ())))
    event_after = WorkResumed(client.id, client.seats[0].gpu)
    tell_steps(page, Steps([], changes_of(BEGIN + 45, event_after, ())))
    # The last stretch began at 45 s, so green comes after the paler one, however late the page is drawn.
    page.wait_for_function(
        """() => {
            const canvas = document.querySelector("canvas");
            const { data } = canvas.getContext("2d").getImageData(0, 23, canvas.width, 1);
            let pale = 0, green = 0;
            for (let i = 0; i < data.length; i += 4) {
                if (data[i] === 0x9a && data[i + 1] === 0xd6) pale += 1;
                if (pale && data[i] === 0x1a && data[i + 1] === 0x9a) green += 1;
            }
            return pale > 20 && green > 20;
        }"""
    )
    page.close()


def test_a_gpu_that_nobody_uses_is_only_a_line(browser: Any) -> None:
    page = open_page(browser, viewport={"width": 1440, "height": HEIGHT})
    tell_past(page)
    tell(page, status_at(0, cards=8, programs=3))
    assert page.locator("#overview li").count() == 8
    assert page.locator("section.gpu:visible").count() == 3
    assert page.locator("#hint").is_hidden()
    page.close()
    page = open_page(browser)
    tell_past(page)
    tell(page, status_at(0, cards=8, programs=0))
    assert page.locator("section.gpu:visible").count() == 0
    assert "nvshare run -- python train.py" in page.locator("#hint").inner_text()
    page.close()


def test_a_gpu_that_was_used_lately_is_shown_with_its_lanes(browser: Any) -> None:
    page = open_page(browser)
    tell_past(page)
    tell(page, status_at(60, cards=2, programs=1))
    tell(page, status_at(61, cards=2, programs=0))
    assert page.locator("section.gpu:visible").count() == 1
    assert page.locator("canvas:visible").count() == 1
    page.close()


def test_programs_without_work_for_long_are_folded(browser: Any) -> None:
    page = open_page(browser)
    tell_past(page)
    tell(page, _with_a_quiet_one(status_at(0, cards=1, programs=4)))
    assert page.locator("td.who").count() == 3
    assert page.locator("canvas").evaluate("one => Math.round(one.clientHeight)") == 3 * 34 + 20
    page.locator("button.fold", has_text="Show 1 program without work").click()
    assert page.locator("td.who").count() == 4
    page.locator("button.fold", has_text="Hide 1 program").click()
    assert page.locator("td.who").count() == 3
    page.close()


def _with_a_quiet_one(status: admin.Status) -> admin.Status:
    replace = msgspec.structs.replace
    *others, last = status.node.clients
    (seat,) = last.seats
    quiet = replace(last, seats=(replace(seat, state="idle", place=0, last_scheduled_ns=1000 * SECOND),))
    return replace(status, node=replace(status.node, clients=(*others, quiet)))


def _brightness(colour: str) -> float:
    parts = [float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    return sum(parts) / 3


def test_a_machine_whose_gpus_are_not_known_yet_shows_what_to_type(browser: Any) -> None:
    """Without NVML a GPU becomes known when a program uses it."""
    page = open_page(browser)
    tell_past(page)
    tell(page, status_at(0, cards=0, programs=0))
    assert "nvshare run -- python train.py" in page.locator("#hint").inner_text()
    said = 'getComputedStyle(document.querySelector("#log"), "::before").content'
    assert page.evaluate(said) == '"Nothing has happened yet."'
    tell(page, status_at(1, cards=1, programs=1))
    assert page.locator("#hint").is_hidden()
    page.close()
