"""Play simulated worlds for a while: python tools/soak.py --seconds 120. A broken law prints its seed and step, exit 1.

--seed N            play only this world, and say its digest (the same on every machine)
--first N           begin with this seed; by default the time, so that every run sees new worlds
--worlds N          this many worlds instead of a time
--week              one machine with --clients 2000 for --days 7 of its time: memory must stay flat"""

import argparse
import itertools
import sys
import time

from nvshare.schedsim.worlds.faults import BrokenWorldError, play
from nvshare.schedsim.worlds.week import Week

MAX_GROWTH = 4 << 20
"""From the end of the first day to the end of the last one."""


def play_week(seed: int, clients: int, days: int) -> int:
    began = time.monotonic()
    week = Week(seed, clients)
    longest_s, steps, turns, total = 0.0, 0, 0, 0
    settled = last = None
    for hour in week.hours(24 * days):
        longest_s, last = max(longest_s, hour.longest_wait_s), hour
        steps, turns, total = steps + hour.steps, turns + hour.turns, total + hour.steps
        if hour.hour == 23:
            settled = hour
        if hour.hour % 24 == 23:
            print(
                f"day {hour.hour // 24 + 1}: {steps} steps, {turns} turns, {hour.waiting} wait,"
                f" longest wait {longest_s / 3600:.1f} h, {hour.memory_bytes / (1 << 20):.1f} MiB",
                flush=True,
            )
            longest_s, steps, turns = 0.0, 0, 0
    week.end()
    print(f"{clients} clients, {days} days, {total} steps in {time.monotonic() - began:.0f} s, seed {seed}")
    assert settled is not None
    assert last is not None
    growth = last.memory_bytes - settled.memory_bytes
    if growth > MAX_GROWTH:
        print(f"WRONG: memory grew by {growth} bytes")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--steps", type=int, default=2000, help="steps of a world, about")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=int(time.time()))
    parser.add_argument("--worlds", type=int)
    parser.add_argument("--week", action="store_true")
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--days", type=int, default=7)
    options = parser.parse_args()
    if options.week:
        return play_week(1 if options.seed is None else options.seed, options.clients, options.days)
    if options.seed is not None:
        seeds: itertools.count[int] | range = range(options.seed, options.seed + 1)
    else:
        seeds = (
            range(options.first, options.first + options.worlds) if options.worlds else itertools.count(options.first)
        )
    began = time.monotonic()
    worlds = steps = 0
    digest = 0
    for seed in seeds:
        if options.worlds is None and options.seed is None and time.monotonic() - began >= options.seconds:
            break
        try:
            played = play(seed, options.steps)
        except BrokenWorldError as error:
            print(error)
            print(f"play it again: python tools/soak.py --seed {error.seed} --steps {options.steps}")
            return 1
        worlds, steps, digest = worlds + 1, steps + played.steps, digest ^ played.digest
    took = time.monotonic() - began
    began_with = options.first if options.seed is None else options.seed
    print(f"{worlds} worlds, {steps} steps, no law broken; first seed {began_with}, digest {digest:08x}")
    print(f"{took:.0f} s, {steps / took:.0f} steps/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
