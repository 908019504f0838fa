from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
from demo_page import Mark, page


def test_nothing_in_the_data_can_become_markup() -> None:
    hostile = "</script><script>alert(1)</script>"
    text = page({hostile: [(0.0, 1.0)]}, [Mark(0.5, hostile)], [{"topic": hostile, "ts_ms": 1}], 0)
    assert hostile not in text
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None and json.loads(found[1])["marks"] == [[0.5, hostile]]


def test_only_its_own_script_and_style_may_run() -> None:
    text = page({}, [], [], 0)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None and policy[1].startswith("default-src 'none'")
    assert policy[1].count("'sha256-") == 2 and "unsafe" not in policy[1]
