"""When a long task ends a transaction."""

from ottla.spark.sink.cuts import Cuts

LIFETIME_MS = 60_000


def run(waits_ms, lifetime_ms=LIFETIME_MS, send_ms=10):
    """A task whose batches take so long to come, each sent at once: the transactions' ages when the
    next batch came, and how many there were."""
    cuts = Cuts(lifetime_ms)
    now, opened, ages, count = 0, None, [], 1
    for wait in waits_ms:
        now += wait
        cuts.waited(wait)
        if opened is not None:
            ages.append(now - opened)
        opened = now if opened is None else opened
        cuts.opened(now)
        now += send_ms
        if cuts.is_due(now):
            cuts.ended()
            opened = None
            count += 1
    return max(ages, default=0), count


def test_a_quick_task_has_one_transaction():
    assert run([5] * 1000)[1] == 1


def test_a_long_task_has_as_few_as_it_needs():
    oldest, count = run([1_000] * 600)
    assert oldest < LIFETIME_MS
    assert count <= 25


def test_slow_rows_never_meet_an_aborted_transaction():
    for wait in (10_000, 20_000, 29_000, 45_000, 59_000, 61_000, 500_000):
        assert run([wait] * 20)[0] < LIFETIME_MS, wait


def test_what_comes_before_the_first_row_counts_once():
    """A sort takes its time; the rows come quickly then."""
    assert run([50_000, *[1] * 500])[1] == 2
    assert run([20_000, *[1] * 500])[1] == 1


def test_a_wait_that_nobody_could_expect():
    cuts = Cuts(LIFETIME_MS)
    cuts.waited(1)
    assert not cuts.is_due(10**9), "nothing is open"
    cuts.opened(0)
    cuts.opened(50_000)
    assert not cuts.is_overdue(59_999)
    assert cuts.is_overdue(60_000)
    cuts.ended()
    assert not cuts.is_overdue(10**9)
