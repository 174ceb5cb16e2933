"""The gate of libnvshare under every interleaving within a bound, with store buffers and reordered loads; then with one
line broken."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIBRARY = HERE.parents[1] / "native" / "libnvshare"

SCENARIOS = {
    "one thread and a helper that closes": "close 1 2 3",
    "two threads and a helper that closes": "close 2 1 3",
    "the same without membarrier": "close 2 1 3 fenced",
    "one thread, and membarrier stops working": "close 1 2 3 refused",
    "two threads, and membarrier stops working": "close 2 1 3 refused",
    "one thread, watched while membarrier stops working": "watch 1 2 4 refused",
    "reordered loads: the same with fewer choices": "watch 1 2 3 refused,weak",
    "one thread and a helper that watches": "watch 1 2 3",
    "two threads and a helper that watches": "watch 2 1 3",
    "one thread, watched without membarrier": "watch 1 2 3 fenced",
    "one thread, watched while the deputy closes": "deputy 1 2 3",
    "two threads, watched while the deputy closes": "deputy 2 1 3",
    "one thread that is let through": "let 1 2 3",
    "two threads of which one is let through": "let 2 1 3",
    "one thread, let through without membarrier": "let 1 2 3 fenced",
    "two threads and an offer that is withdrawn": "offer 2 1 3",
    "one thread on two GPUs at once": "several 1 2 3",
    "two threads on two GPUs at once": "several 2 1 3",
    "one thread on two GPUs at once, without membarrier": "several 1 2 3 fenced",
    "one thread on two GPUs at once, let through at one of them": "reach 1 2 3",
    "the same, without membarrier": "reach 1 1 4 fenced",
    "two threads on two GPUs at once, one of them let through": "reach 2 1 3",
    "one thread on two GPUs at once, let through at one while the other is watched": "beside 1 1 3",
    "reordered loads: the same": "beside 1 1 3 weak",
    "reordered loads: one thread and a helper that closes": "close 1 2 3 weak",
    "reordered loads: two threads and a helper that closes": "close 2 1 3 weak",
    "reordered loads: the same without membarrier": "close 2 1 3 fenced,weak",
    "reordered loads: one thread and a helper that watches": "watch 1 2 3 weak",
    "reordered loads: two threads and a helper that watches": "watch 2 1 3 weak",
    "reordered loads: one thread, watched without membarrier": "watch 1 2 3 fenced,weak",
    "reordered loads: two threads, watched while the deputy closes": "deputy 2 1 3 weak",
    "reordered loads: two threads of which one is let through": "let 2 1 3 weak",
    "reordered loads: one thread, let through without membarrier": "let 1 2 3 fenced,weak",
    "reordered loads: two threads and an offer that is withdrawn": "offer 2 1 3 weak",
    "reordered loads: two threads on two GPUs at once": "several 2 1 3 weak",
    "reordered loads: one thread on two GPUs at once, without membarrier": "several 1 2 3 fenced,weak",
    "reordered loads: one thread on two GPUs, let through without membarrier": "reach 1 2 3 fenced,weak",
}

NOW = "atomic_load_explicit(&nvs_enter_mode.bits, memory_order_relaxed)"
REREAD = f"        fence_after_store({NOW});\n        "
RECHECK = "if (atomic_load_explicit(&use.gpu->gate->word, memory_order_relaxed) == word) {"
COMPARISON = "atomic_load_explicit(&cached->gate->word, memory_order_relaxed) == cached->word"
RELEASE = "atomic_store_explicit(&self->inside, 0, memory_order_release);\n}"
OPENED = "    atomic_fetch_or(&gpu->gate->word, NVS_WORD_OPEN);\n    nvs_gate_call_waiters(gpu);\n"
CLOSED = "~(NVS_WORD_OPEN | NVS_WORD_WATCH));\n    barrier_all_threads();"
WATCHED = "word | NVS_WORD_WATCH))\n        ;\n    barrier_all_threads();"
SWAP = "atomic_compare_exchange_strong(&gpu->let_one, &offer, 0)"
TAKE = f"bool nvs_gate_take(struct nvs_gpu *gpu, uint32_t offer) {{ return {SWAP}; }}"
INSIDE = "    atomic_store_explicit(&self->inside, mask, memory_order_relaxed);\n"
FENCED = "    fence_after_store(NVS_ENTER_FENCED);\n"
OFFERED = "    atomic_store(&gpu->let_one, offer);\n    nvs_gate_call_waiters(gpu);\n"
GENERATION = "    if (!nvs_gate_new_generation(gpu, was_closed))\n        return false;\n"
CLEARED = """    for (struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at))
        if (at->gpu == gpu)
            at->is_noted = false;
"""
SEVERAL = "if (are_open(mask) && atomic_load_explicit(&use.gpu->gate->word, memory_order_relaxed) == word)"
OUTSIDE = "atomic_load_explicit(&at->inside, memory_order_acquire)"
BROKEN = {
    "reordered loads: a thread is found outside without acquire": (
        "threads.c",
        OUTSIDE,
        OUTSIDE.replace("acquire", "relaxed"),
        "close 1 2 3 weak",
    ),
    "a list that is cleared before the generation changes": (
        "drain.c",
        GENERATION + CLEARED,
        CLEARED + GENERATION,
        "watch 1 2 3",
    ),
    "a list that is cleared without a new generation": (
        "drain.c",
        GENERATION + CLEARED,
        "    (void)was_closed;\n" + CLEARED,
        "close 1 2 3",
    ),
    "a drain that believes what an earlier one found": (
        "drain.c",
        "attempts[gpu->index]++;",
        "attempts[gpu->index] = 1;",
        "close 1 2 3",
    ),
    "no look at the word of the stream's own GPU": (
        "enter.c",
        SEVERAL,
        "if (are_open(mask) && word)",
        "several 1 2 3",
    ),
    "no look at the gates of the other GPUs": (
        "enter.c",
        SEVERAL,
        SEVERAL.replace("are_open(mask)", "(mask || are_open(mask))"),
        "several 1 2 3",
    ),
    "closing without a barrier": ("gate.c", CLOSED, CLOSED.partition(";")[0] + ";", "close 1 2 3"),
    "watching without a barrier": ("gate.c", WATCHED, WATCHED.rpartition("\n")[0], "watch 1 2 3"),
    "threads without their fence": (
        "enter.c",
        "atomic_thread_fence(memory_order_seq_cst);",
        ";",
        "close 1 2 3 fenced",
    ),
    "membarrier that stops working, and no barrier instead": (
        "gate.c",
        "    nvs_barrier_once();\n",
        "",
        "close 1 2 3 refused",
    ),
    "membarrier that stops working, and the words of before": (
        "gate.c",
        "        nvs_gate_force_slow_path(&nvs_gpus[i]);",
        "        ;",
        "watch 1 2 4 refused",
    ),
    "membarrier that stops working while a thread waits, which goes on without a fence": (
        "enter.c",
        REREAD + RECHECK,
        REREAD.replace(NOW, "mode") + RECHECK,
        "watch 1 2 3 refused",
    ),
    "no second look at the word": ("enter.c", RECHECK, "if (word) {", "close 1 1 3"),
    "no look at the word": ("enter.h", COMPARISON, "cached->word", "close 1 2 3"),
    "leaving without release": ("leave.h", RELEASE, RELEASE.replace("release", "relaxed"), "close 1 2 3"),
    "no new generation": ("gate.c", "word + NVS_WORD_GENERATION", "word", "close 1 2 3"),
    "a new generation after work came in": (
        "gate.c",
        ": !(word & NVS_WORD_WATCH))",
        ": !word)",
        "watch 1 2 3",
    ),
    "a new generation after the deputy has closed the gate": (
        "gate.c",
        "was_closed ? word & NVS_WORD_OPEN : !(word & NVS_WORD_WATCH)",
        "(word & (NVS_WORD_OPEN | NVS_WORD_WATCH)) == NVS_WORD_OPEN && (was_closed || word)",
        "deputy 1 2 3",
    ),
    "waiters called before the gate opens": (
        "gate.c",
        OPENED,
        "".join(reversed(OPENED.splitlines(keepends=True))),
        "close 1 2 3",
    ),
    "the count read when it is slept on": (
        "gate.c",
        "nvs_futex_wait(&gpu->wake_count, seen,",
        "nvs_futex_wait(&gpu->wake_count, atomic_load(&gpu->wake_count),",
        "close 1 2 3",
    ),
    "an offer that two may take": (
        "gate.c",
        TAKE,
        TAKE.replace(SWAP, "(offer = atomic_load(&gpu->let_one))"),
        "let 2 1 3",
    ),
    "an offer taken before the thread is inside": (
        "enter.c",
        INSIDE + FENCED + "    if (take_offers(mask) && nvs_stream_note(use))\n",
        "    bool is_taken = take_offers(mask);\n" + INSIDE + "    if (is_taken && nvs_stream_note(use))\n",
        "let 1 2 3",
    ),
    "an offer taken at one gate without a fence for the open ones": (
        "enter.c",
        INSIDE + FENCED + "    if (take_offers",
        INSIDE + "    if (take_offers",
        "reach 1 1 4 fenced",
    ),
    "a stream that is not noted when it is let through": (
        "enter.c",
        "take_offers(mask) && nvs_stream_note(use)",
        "take_offers(mask) && use",
        "let 1 2 3",
    ),
    "waiters called before there is an offer": (
        "gate.c",
        OFFERED,
        "".join(reversed(OFFERED.splitlines(keepends=True))),
        "let 1 2 3",
    ),
    "the count read after the offer": (
        "gate.c",
        "nvs_futex_wait(&gpu->wake_count, seen,",
        "nvs_futex_wait(&gpu->wake_count, atomic_load(&gpu->wake_count),",
        "let 1 2 3",
    ),
    "an offer taken while another gate is watched": (
        "enter.c",
        "if (!closed || offer)",
        "if (!closed)",
        "beside 1 1 3",
    ),
    "work after IDLE that wakes nobody": ("gate.c", " && atomic_load(&gpu->is_known_idle)", " && false", "watch 1 2 3"),
}


def build(library: Path, place: Path) -> Path:
    subprocess.run([HERE / "build.sh", library, place / "gate"], check=True)
    return place / "gate"


def explore(program: Path, scenario: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *scenario.split()], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(LIBRARY, tmp_path_factory.mktemp("shipped"))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_nobody_is_inside_a_gate_that_was_closed_and_found_empty(shipped: Path, scenario: str) -> None:
    done = explore(shipped, scenario)
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(done.stdout.split()[0]) > 1000


@pytest.mark.parametrize("name", BROKEN)
def test_a_gate_with_one_broken_line_is_found_out(tmp_path: Path, name: str) -> None:
    file, line, broken, scenario = BROKEN[name]
    shutil.copytree(LIBRARY, tmp_path / "libnvshare")
    source = tmp_path / "libnvshare" / "gate" / file
    assert source.read_text().count(line) == 1
    source.write_text(source.read_text().replace(line, broken))
    done = explore(build(tmp_path / "libnvshare", tmp_path), scenario)
    assert done.returncode == 1, done.stdout
    assert "violated: " in done.stdout


def test_an_exploration_that_does_not_try_every_run_fails(shipped: Path) -> None:
    done = explore(shipped, "close 1 2 3 membarrier 10")
    assert done.returncode != 0
    assert "all runs are tried" in done.stdout + done.stderr
