"""Figures of merit of one way to schedule, over many mixes.

slowdown        geometric mean over all jobs of (time from arrival to end) / (time alone)
responses       of the bursts of interactive jobs: mean and 95th percentile, in seconds
makespan        until the last job has ended: low slowdowns must not be reached by a longer makespan
fairness        among equals: Jain's index of their slowdowns, the least of all mixes
longest wait    of any job, in seconds"""

from collections.abc import Sequence
from math import ceil

from nvshare.record import Record
from nvshare.schedsim.mixes import Comparison, fairness, geometric_mean


class Merits(Record, frozen=True):
    name: str
    slowdown: float
    makespan_s: float
    """Geometric mean."""
    mean_response_s: float | None
    p95_response_s: float | None
    """None: no job was interactive."""
    longest_wait_s: float
    longest_wait_seed: int
    least_fairness: float | None
    """None: no mix was of equals."""
    least_fairness_seed: int | None


def merits(compared: Sequence[Comparison], name: str) -> Merits:
    outcomes = [one.outcomes[name] for one in compared]
    responses = sorted(response for outcome in outcomes for job in outcome.jobs for response in job.responses_s)
    wait_s, wait_seed = max((one.outcomes[name].longest_wait_s, one.seed) for one in compared)
    fair = [(fairness(one.outcomes[name]), one.seed) for one in compared if one.are_equals]
    least, least_seed = min(fair) if fair else (None, None)
    return Merits(
        name=name,
        slowdown=geometric_mean([job.slowdown for outcome in outcomes for job in outcome.jobs]),
        makespan_s=geometric_mean([outcome.makespan_s for outcome in outcomes]),
        mean_response_s=sum(responses) / len(responses) if responses else None,
        p95_response_s=percentile(responses, 0.95) if responses else None,
        longest_wait_s=wait_s,
        longest_wait_seed=wait_seed,
        least_fairness=least,
        least_fairness_seed=least_seed,
    )


def percentile(ordered: Sequence[float], part: float) -> float:
    """The least value that this part of all values does not exceed."""
    return ordered[ceil(part * len(ordered)) - 1]
