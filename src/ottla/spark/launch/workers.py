"""The Python that Spark starts its workers with.

Spark puts its libraries as archives, without bytecode, and a jar of 5,800 entries before everything
else on a worker's path. Where PySpark is a package of this environment the worker finds it there
too, compiled: importing it takes 0.3 s instead of 0.9, and Spark starts a process anew for every
streaming query. Its daemons are started with the imports of their workers done (`daemon.py`).
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shlex
import shutil
import site
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from ottla.spark.launch.launchers import launcher

# What Spark allows: the system's limit for the whole path is 104 bytes.
_MAX_SOCKET_FOLDER = 61
# SPARK_HOME is set by Spark's own launcher; the paths are those of PythonUtils.sparkPythonPath.
_SCRIPT = """\
#!/bin/sh
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
  case $entry in
    "$SPARK_HOME"/python/lib/*.zip | "$SPARK_HOME"/jars/*.jar) ;;
    *) kept=$kept${{kept:+:}}$entry ;;
  esac
done
export PYTHONPATH="$kept"
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  exec {python} -c {daemon} "$@"
fi
exec {python} "$@"
"""
# `-c` leaves the arguments where `-m` has them. PySpark may be there without this package.
_DAEMON = """\
try:
    from ottla.spark.launch.daemon import main
except ImportError:
    from pyspark.daemon import manager as main
main()
"""


def worker_python() -> Path:
    """This interpreter, or a script that starts it with a shorter path."""
    real = Path(sys.executable)
    if os.name != "posix" or not _has_spark():
        return real
    try:
        script = launcher(
            "python",
            real,
            _SCRIPT.format(python=shlex.quote(str(real)), daemon=shlex.quote(_DAEMON)),
        )
    except OSError:  # no place for it
        return real
    return script if os.access(script, os.X_OK) else real


def socket_settings() -> dict[str, str]:
    """Unix sockets between the JVM and Python workers that `worker_python` starts (SPARK-51688).

    Small micro-batches are faster with them than over TCP, where Spark leaves Nagle's algorithm on
    (docs/bench.md). Spark asks for no secret on Unix sockets: they are in a folder that is this
    user's alone.
    """
    if sys.platform != "linux" or worker_python() == Path(sys.executable):
        return {}
    folder = _socket_folder()
    if len(folder) > _MAX_SOCKET_FOLDER:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": folder,
    }


@cache
def _socket_folder() -> str:
    folder = mkdtemp(prefix="ottla-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _has_spark() -> bool:
    """Does this interpreter find PySpark without help, and is that Spark's home as well?"""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return False
    package = Path(spec.origin).parent.resolve()
    if Path(os.environ.get("SPARK_HOME", package)).resolve() != package:
        return False
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return package.parent in {Path(folder).resolve() for folder in folders}
