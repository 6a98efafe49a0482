"""What Spark's Python workers are forked from: `python -m runnel.table.forks pyspark.worker`, started by Spark.

It has imported what every worker needs, so that a worker begins at once. And it imports from where things are installed,
not from the archives that Spark puts in front: a worker reads the contents of these anew for each of its tasks, which
takes longer than small tasks do, and code from archives is compiled again by each process.
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from zipfile import ZipFile

ARCHIVES = (".zip", ".jar")


def leave_archives() -> None:
    """Take Spark's archives out of the way of imports, if the PySpark that is installed is the one that is in them."""
    archives = tuple(place for place in sys.path if place.endswith(ARCHIVES))
    if not all(_is_installed(place) for place in archives if place.endswith("pyspark.zip")):
        return
    sys.path[:] = [place for place in sys.path if place not in archives]
    for place in list(sys.path_importer_cache):
        if place.startswith(archives):
            del sys.path_importer_cache[place]


def _is_installed(archive: str) -> bool:
    try:
        here = version("pyspark")
        with ZipFile(archive) as opened:
            return f'"{here}"' in opened.read("pyspark/version.py").decode().replace("'", '"')
    except (PackageNotFoundError, OSError, KeyError):
        return False


if __name__ == "__main__":
    leave_archives()
    from pyspark.daemon import manager

    import runnel.table.executor  # noqa: F401  for those that are forked

    manager()  # type: ignore[no-untyped-call]
