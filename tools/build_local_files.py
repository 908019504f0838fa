"""Compiles `OttlaLocalFiles.java` into the jar beside it; needs javac and the locked PySpark.

    python tools/build_local_files.py

The jar is part of the package: where Spark runs there is often no compiler. It remembers the source
it was made of (`ottla.spark.launch.local_files.source_digest`), and a test compares.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ottla.spark.launch.local_files import JAR, SOURCE, SOURCE_DIGEST, digest

# The oldest that Spark 4 runs on.
RELEASE = "17"
# Every build gives the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        print("PySpark is not installed: its jars have the classes to compile against")
        return 1
    (hadoop,) = (Path(spec.origin).parent / "jars").glob("hadoop-client-api-*.jar")
    with tempfile.TemporaryDirectory(prefix="ottla-javac-") as folder:
        command = ["javac", "--release", RELEASE, "-g:none", "-cp", str(hadoop), "-d", folder]
        try:
            subprocess.run([*command, str(SOURCE)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"not compiled: {error}")
            return 1
        write(JAR, Path(folder))
    print(f"{JAR}: {JAR.stat().st_size} bytes")
    return 0


def write(jar: Path, classes: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        entries = {SOURCE_DIGEST: digest(SOURCE.read_bytes()).encode()}
        for file in sorted(classes.rglob("*.class")):
            entries[str(file.relative_to(classes))] = file.read_bytes()
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


if __name__ == "__main__":
    sys.exit(main())
