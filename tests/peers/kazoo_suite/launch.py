"""What the `java` of kazoo's harness really starts: our server, or Apache ZooKeeper without TLS.

The harness runs `java … QuorumPeerMain zoo.cfg`. With `KAZOO_SUITE_JAVA` set to a real java the
same server is started for comparison, minus the TLS lines (their key stores are stubs).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvloop

from ottla.cli.zookeeper import serve

_TLS_KEYS = ("secureClientPort", "ssl.", "authProvider.")


def main() -> None:
    config = Path(sys.argv[-1])
    real_java = os.environ.get("KAZOO_SUITE_JAVA")
    lines = config.read_text().splitlines()
    if real_java:
        config.write_text("\n".join(line for line in lines if not line.startswith(_TLS_KEYS)))
        os.execv(real_java, [real_java, "-Xmx256m", *sys.argv[1:]])
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    uvloop.run(
        serve(
            int(settings["clientPort"]),
            Path(settings["dataDir"]),
            tick_ms=int(settings["tickTime"]),
            # The harness's zoo.cfg allows all of them.
            words=settings.get("4lw.commands.whitelist", "*"),
        )
    )


main()
