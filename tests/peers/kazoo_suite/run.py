"""Runs kazoo's own test-suite on one server and writes what came out as JSON.

python tests/peers/kazoo_suite/run.py outcomes.json [pytest arguments]
KAZOO_SUITE_JAVA=/usr/bin/java python … outcomes.json      the same on Apache ZooKeeper
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from ottla.testing.peers import peer_folder

HERE = Path(__file__).parent
PER_TEST_TIMEOUT_S = 60


def main(output: Path, arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="kazoo-suite-") as folder:
        shim = Path(folder) / "java"
        launch = shlex.join([sys.executable, str(HERE / "launch.py")])
        shim.write_text(f'#!/bin/sh\nexec {launch} "$@"\n')
        shim.chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}",
            # What is tested may be a checkout that is not the installed one.
            "PYTHONPATH": os.pathsep.join(
                [str(HERE), str(HERE / "stubs"), os.environ.get("PYTHONPATH", "")]
            ),
            "ZOOKEEPER_VERSION": "3.8.4",
            "ZOOKEEPER_CLASSPATH": f"{peer_folder('zookeeper-3.8')}/*",
            "ZOOKEEPER_CLUSTER_SIZE": "1",
            "ZOOKEEPER_PORT_OFFSET": str(_free_port_range()),
            "KAZOO_SUITE_OUTCOMES": str(output.resolve()),
        }
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-W", "ignore"),
            *("-p", "recorder", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:ottla"),
            *("-c", os.devnull, "--rootdir", folder, f"--timeout={PER_TEST_TIMEOUT_S}"),
            *("--tb=short", "--pyargs", "kazoo.tests", *arguments),
        ]
        subprocess.run(command, cwd=folder, env=environment, check=False)
    outcomes = json.loads(output.read_text()) if output.exists() else {}
    return 0 if outcomes else 1


def _free_port_range() -> int:
    """The harness uses this port and the next ten."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return min(int(probe.getsockname()[1]), 65000)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
