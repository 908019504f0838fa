"""An event loop beside plain code: results, interruptions, ends, forks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from ottla.spark.loop_thread import LoopClosed, LoopThread

WAIT_S = 30


async def nothing() -> None:
    pass


async def forever(begun: threading.Event, ended: threading.Event) -> None:
    begun.set()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ended.set()


def test_results_and_errors_come_back(thread: LoopThread) -> None:
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        return one + other

    async def fail() -> None:
        raise ConnectionResetError("gone")

    assert thread.result(thread.begin(add(1, 2))) == 3
    with pytest.raises(ConnectionResetError, match="gone"):
        thread.result(thread.begin(fail()))


def test_the_loop_goes_on_while_nobody_waits(thread: LoopThread) -> None:
    done = threading.Event()

    async def count() -> None:
        for _ in range(3):
            await asyncio.sleep(0.001)
        done.set()

    thread.begin(count())
    assert done.wait(WAIT_S)


def test_an_interrupted_wait_ends_the_work(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    work = thread.begin(forever(begun, ended))
    assert begun.wait(WAIT_S)
    monkeypatch.setattr(work, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        thread.result(work)
    assert ended.wait(WAIT_S)


def test_whoever_waits_when_it_is_closed_is_told(thread: LoopThread) -> None:
    begun, ended = threading.Event(), threading.Event()
    work = thread.begin(forever(begun, ended))
    assert begun.wait(WAIT_S)
    thread.close()
    assert ended.is_set()
    with pytest.raises(LoopClosed):
        thread.result(work)


@pytest.mark.filterwarnings("error")
def test_nothing_begins_after_the_end(thread: LoopThread) -> None:
    thread.close()
    thread.close()
    with pytest.raises(LoopClosed):
        thread.begin(nothing())
    thread.call(print, "never")


def run_script(script: str) -> str:
    """What a process prints; it must end by itself and complain of nothing."""
    ran = subprocess.run(
        [sys.executable, "-W", "default", "-c", script],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout


_BEGINNING = """
import asyncio, logging, os, sys, threading
logging.getLogger("asyncio").setLevel(logging.ERROR)  # which callback was slow on a busy machine
from ottla.spark.loop_thread import LoopThread
async def at_end(): print("ended in", names[os.getpid()], flush=True)
async def hang(begun):
    begun.set()
    await asyncio.get_running_loop().create_future()
def busy_thread():
    thread, begun = LoopThread("io", at_end), threading.Event()
    thread.begin(hang(begun))
    assert begun.wait(20)
    return thread
names = {os.getpid(): "parent"}
thread = busy_thread()
"""


def test_a_process_ends_with_work_under_way() -> None:
    assert run_script(_BEGINNING) == "ended in parent\n"


def test_one_that_is_forgotten_ends() -> None:
    code = "import gc; del thread; gc.collect(); print('still here')\n"
    assert run_script(_BEGINNING + code) == "ended in parent\nstill here\n"


def test_a_child_of_a_fork_makes_its_own() -> None:
    code = """
import warnings; warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads
child = os.fork()
if child == 0:
    names[os.getpid()] = "child"
    try:
        thread.begin(at_end())
    except Exception as error:
        print(type(error).__name__, flush=True)
    own = busy_thread()
    sys.exit(0)
os.waitpid(child, 0)
"""
    expected = ["InvariantViolated", "ended in child", "ended in parent"]
    assert run_script(_BEGINNING + code).splitlines() == expected


def test_a_signal_at_any_moment_of_a_wait_leaves_the_loop_at_work() -> None:
    """Real ones, between any two steps of `begin` and `result`, as Ctrl-C comes."""
    code = """
import faulthandler, random, signal
faulthandler.dump_traceback_later(20, exit=True)  # says where it hangs
armed = False
def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
async def wait(): await asyncio.sleep(0.001)
async def seven(): return 7
chance, interrupted = random.Random(5), 0
for _ in range(2000):
    work = thread.begin(wait())
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 60e-6))
        thread.result(work)
        armed = False
    except KeyboardInterrupt:
        interrupted += 1
    assert thread.result(thread.begin(seven())) == 7
print("interrupted", interrupted > 200)
"""
    assert run_script(_BEGINNING + code) == "interrupted True\nended in parent\n"
