"""A stderr that nobody reads keeps no program from its turns. tests/native/lib_unit_log.c has the other cases."""

import os
from pathlib import Path

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import Programs
from nvshare.wire.messages import DropLock, LockOk, LockReleased, ReqLock


def test_the_helper_answers_while_nobody_reads_the_lines_that_it_prints(
    programs: Programs, scheduler: FakeScheduler, tmp_path: Path
) -> None:
    log = tmp_path / "stderr-0"
    os.mkfifo(log)
    full = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    try:
        while os.write(full, bytes(4096)):
            pass
    except BlockingIOError:
        pass
    program = programs.start(NVSHARE_DEBUG="1")
    log.unlink()
    log.touch()
    peer = scheduler.join(program)
    for lock in range(1, 4):
        program.say("spin 1 1")
        peer.expect(ReqLock)
        peer.send(LockOk(0, False, lock))
        assert program.answer()[0] == "0"
        peer.send(DropLock(0, 1, 1000, lock))
        assert peer.expect(LockReleased).lock == lock
    os.close(full)
