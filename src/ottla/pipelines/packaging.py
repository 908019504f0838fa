"""The package as one file, for executors on machines that do not have it.

Only pure Python is in it: the wheels it needs (crc32c, cramjam, numpy, pyarrow) must be there, as
PySpark's own must.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("ottla", "pyspark_ottla")
# Every build gives the same bytes, so that Spark takes a second copy for the first.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_files() -> Iterator[tuple[str, Path]]:
    """Names inside the archive, and the files."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"no package {package}", name=package)
        home = Path(spec.origin).parent
        for file in sorted(home.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield str(Path(package) / file.relative_to(home)), file


def write_package(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in package_files():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return path


def ship(spark: SparkSession, folder: Path) -> None:
    """Sends the package to the executors; those of a local master are this process."""
    if not (spark.sparkContext.master or "local").startswith("local"):
        spark.sparkContext.addPyFile(str(write_package(folder / "ottla.zip")))
