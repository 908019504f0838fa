"""The package as one file, for executors on machines that do not have it.

Only pure Python is in it: the wheels it needs (crc32c, cramjam, numpy, pyarrow, uvloop) must be
there, as PySpark's own must.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGES = ("ottla", "pyspark_ottla")
PACKAGE_NAME = "ottla.zip"
_PATH_SETTING = "spark.executorEnv.PYTHONPATH"
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


def write_package(path: Path | str = PACKAGE_NAME) -> Path:
    """For `spark-submit --py-files`, and for what this package sends by itself."""
    path = Path(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in package_files():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return path


def own_archive() -> Path | None:
    """The file that this package was imported from, where it was one."""
    spec = importlib.util.find_spec(PACKAGES[0])
    if spec is None or spec.origin is None:
        return None
    archive = Path(spec.origin).parent.parent
    return archive if archive.is_file() else None


def shipping_settings(conf: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Settings of a session with which executors get the package.

    Files are put where an executor runs, and its Python workers run there too, so that the bare
    name on their path is enough. `addPyFile` would not do: workers of a data source that Spark
    found by itself do not get it.
    """
    package = write_package(folder / PACKAGE_NAME)
    files = [conf.get("spark.files", ""), str(package)]
    paths = [PACKAGE_NAME, conf.get(_PATH_SETTING, "")]
    return {
        "spark.files": ",".join(filter(None, files)),
        _PATH_SETTING: ":".join(filter(None, paths)),
    }
