"""A server of Spark Connect, in a process of its own, as an administrator would start it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pyspark

from ottla.spark.launch.java import java_home
from ottla.testing.cluster import free_ports

# The wheel of PySpark has no sbin/start-connect-server.sh; this is what it would run.
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60


class ConnectServer:
    """`path` is the PYTHONPATH of the server and its workers: what is there is installed."""

    def __init__(self, folder: Path, path: str, **conf: str) -> None:
        self._log = folder / "connect-server.log"
        self._path = path
        self._port = free_ports(1)
        self._conf = conf
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        conf = {
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **self._conf,
        }
        settings = [word for item in conf.items() for word in ("--conf", "=".join(item))]
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(submit),
                    "--master",
                    "local[2]",
                    "--class",
                    SERVER,
                    *settings,
                    "spark-internal",
                ],
                env={
                    **kept,
                    "PYTHONPATH": self._path,
                    "PYSPARK_PYTHON": sys.executable,
                    "JAVA_HOME": str(java_home()),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                cwd=self._log.parent,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            assert self._process.poll() is None, self.tail()
            assert time.monotonic() < deadline, self.tail()
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        """The server, and the workers that it has started."""
        assert self._process is not None
        group = self._process.pid
        os.killpg(group, signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(group, signal.SIGKILL)
            self._process.wait()

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
