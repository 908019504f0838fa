"""What the tests that run a client's own suite share."""

from ottla.testing.peers import STAMP, peer_folder
from tests.support.judges import need


def need_suite(name: str, tool: str) -> None:
    """Skips with the reason; in CI, where the peers must be there, fails with it."""
    if (peer_folder(name) / STAMP).is_file():
        return
    reason = f"the tests of {name} are missing: `make peers` fetches them (needs {tool})"
    need(reason)


def differences(outcomes: dict[str, str], expected: dict[str, str]) -> list[str]:
    """One line per test that did not come out as expected."""
    return [
        f"{name}: {outcomes.get(name, 'did not run')}, expected {expected.get(name, 'nothing')}"
        for name in sorted(outcomes.keys() | expected.keys())
        if outcomes.get(name) != expected.get(name)
    ]
