"""What one step of a shared limit does when much is due, or when messages cross."""

from nvshare.core import actions as ac
from nvshare.core.limits.limit_members import LimitMembers, Share
from nvshare.core.limits.shared_limit import LONGEST, MAX_PER_STEP, SharedLimit
from nvshare.core.model import GIB, MILLISECOND, UNLIMITED

GPU = "g0"
RECALL = 200 * MILLISECOND


def _shared(members: int) -> SharedLimit:
    """A group without a limit whose members have been told so."""
    shared = SharedLimit(GPU, RECALL)
    for client in range(1, members + 1):
        shared.join(Share(client, budget=UNLIMITED, used=0, limit_told=0, cap=0))
    while _decide(shared, 0) or shared.deadline is not None:
        pass
    return shared


def _decide(shared: SharedLimit, now: int) -> list[ac.Action]:
    out: list[ac.Action] = []
    shared.decide(now, out, is_settling=False)
    shared.check()
    return out


def _told(actions: list[ac.Action]) -> set[int]:
    return {action.client for action in actions if isinstance(action, ac.UpdateLimit)}


def test_a_step_does_a_bounded_number_of_things_and_asks_for_the_next_step_at_once() -> None:
    shared = _shared(members=MAX_PER_STEP + 8)
    shared.set_limit(4 * GIB)
    first = _decide(shared, now=5)
    assert len(first) == len(_told(first)) == MAX_PER_STEP
    assert shared.deadline == 5
    second = _decide(shared, now=5)
    assert _told(first) | _told(second) == set(shared.shares)
    assert _told(first) & _told(second) == set()


def test_a_member_that_asks_before_its_limit_was_told_is_told_it_before_the_answer() -> None:
    shared = _shared(members=MAX_PER_STEP + 8)
    shared.set_limit(4 * GIB)
    shared.note_ask(5, client=1, ask=7, need=5 * GIB)
    of_the_asker = [action for action in _decide(shared, now=5) if action.client == 1]  # type: ignore[attr-defined]
    assert of_the_asker == [
        ac.UpdateLimit(1, GPU, 4 * GIB),
        ac.GiveBudget(1, GPU, serial=0, ask=7, budget=5 * GIB - 1, others=0),
    ]


def test_a_question_of_a_member_that_has_left_is_not_answered() -> None:
    shared = _shared(members=2)
    shared.set_limit(4 * GIB)
    _decide(shared, now=5)
    shared.note_ask(6, client=1, ask=7, need=GIB)
    shared.leave(1)
    answers = [action for action in _decide(shared, now=6) if isinstance(action, ac.GiveBudget) and action.ask]
    assert answers == []
    assert shared.questions.open == 0


def test_an_answer_to_an_earlier_recall_of_a_lowered_limit_does_not_count() -> None:
    shared = _shared(members=1)
    shared.set_limit(4 * GIB)
    first = _decide(shared, now=5)
    shared.set_limit(2 * GIB)
    second = _decide(shared, now=6)
    recalls = [action for action in (*first, *second) if isinstance(action, ac.RecallBudget)]
    assert [recall.keep for recall in recalls] == [4 * GIB, 2 * GIB]
    shared.note_return(7, 1, recalls[0].serial, budget=4 * GIB, used=0)
    assert shared.members.bound == UNLIMITED
    shared.note_return(8, 1, recalls[1].serial, budget=2 * GIB, used=0)
    assert shared.members.bound == 2 * GIB


def test_only_a_member_that_was_asked_longer_ago_than_the_recall_time_counts_as_silent() -> None:
    members = LimitMembers(RECALL)
    for client, asked_at in ((1, 0), (2, 50 * MILLISECOND)):
        share = Share(client, budget=GIB, used=0, limit_told=GIB, cap=0)
        members.join(share)
        members.move(share, members.awaited)
        share.asked_at = asked_at
    members.note_silence(RECALL)
    assert (list(members.silent), list(members.awaited)) == ([1], [2])


def test_a_question_is_refused_in_the_end_if_a_member_speaks_but_never_answers_its_recall() -> None:
    shared = _shared(members=2)
    shared.set_limit(4 * GIB)
    recalls = {action.client: action for action in _decide(shared, 0) if isinstance(action, ac.RecallBudget)}
    shared.note_return(1, 1, recalls[1].serial, budget=0, used=0)
    shared.note_ask(1, client=1, ask=7, need=3 * GIB)
    answers: list[ac.Action] = []
    last = 1 + LONGEST * RECALL
    for now in range(1, last + 1, RECALL // 2):
        shared.note_used(now, client=2, used=now)
        shared.has_rung = True
        assert answers == [], "it is waited for as long as it speaks"
        answers += [action for action in _decide(shared, now) if isinstance(action, ac.GiveBudget) and action.ask]
    assert answers == [ac.GiveBudget(1, GPU, serial=0, ask=7, budget=0, others=last)]
