"""A broker that asks nobody who they are starts without the code for it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import ottla.process.node
import ottla.client.connection
found = [name for name in sys.modules if name.startswith("ottla.security")]
print(*sorted(found))
"""


def test_what_a_broker_without_security_imports() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [
        "ottla.security",
        "ottla.security.acls",
        "ottla.security.rights",
        "ottla.security.setup",
    ]
