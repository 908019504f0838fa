"""Every command, program and file of README and docs, done as it stands, page by page.

A page is read by a process of its own in a private network: the ports are the documented ones.
Where a page says pip, that is an empty environment, and `ottla` comes from this checkout's wheel.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from tests.support.documents import desk
from tests.support.documents.blocks import ROOT, blocks, commands, page_text
from tests.support.documents.plan import PLANS
from tests.support.documents.reader import NO_NETWORK
from tests.support.judges import need

pytestmark = pytest.mark.timeout(900)

RUN = sorted(
    page
    for page, plan in PLANS.items()
    if not plan.run_by
    and any(
        block.language == "python"
        or any(found.text not in plan.left_out for found in commands(block))
        for block in blocks(page_text(page))
    )
)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    uv = desk.find_uv()
    need(None if uv else "no uv on PATH or in the cache: `make setup` brings it")
    assert uv is not None
    folder = tmp_path_factory.mktemp("wheels")
    desk.build_wheel(uv, folder)
    return folder


@pytest.mark.parametrize("page", RUN)
def test_the_page_holds(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    plan = PLANS[page]
    if plan.needs_spark:
        need(missing_reason())
    folder = tmp_path / "reader"
    folder.mkdir()
    desk.lay_out(plan, folder)
    programs, found_wheels = Path(sys.prefix) / "bin", None
    if plan.installs:
        found_wheels = request.getfixturevalue("wheels")
        uv = desk.find_uv()
        assert uv is not None
        programs = desk.empty_environment(uv, tmp_path / "environment")
    run = subprocess.run(
        [sys.executable, "-c", _READ, str(ROOT), page, str(folder)],
        env=desk.environment(programs, folder, found_wheels),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=840,
        check=False,
    )
    print(run.stdout)
    need(run.stdout.splitlines()[-1] if run.returncode == NO_NETWORK else None)
    assert run.returncode == 0, run.stdout[-6000:]


# The reader's programs must not find the checkout: it is on the path of this interpreter only.
_READ = """\
import sys
root = sys.argv.pop(1)
sys.path[:0] = [root, root + "/src"]
from tests.support.documents.reader import main
sys.exit(main())
"""
