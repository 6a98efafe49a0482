"""Look into write-ahead objects.

`runnel log inspect OBJECT` prints what one object holds, slice by slice. OBJECT is its name in the object store of the
settings, such as wal/0199a2b3c4d5-00f1e2d3c4b5a697, or the path of a file. With `--whole` every byte is read and checked.
"""

import argparse
import asyncio
from pathlib import Path
from urllib.parse import quote

from runnel.settings import Settings
from runnel.ui.cli.house import House
from runnel.ui.cli.options import add_json, add_knobs, loaded_from


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["inspect"], help="what to do")
    parser.add_argument("object", metavar="OBJECT", help="the object's name, or the path of a file")
    parser.add_argument("--whole", action="store_true", help="read and check every byte, not only the footer")
    add_json(parser)
    add_knobs(parser)


def run(args: argparse.Namespace, house: House) -> int:
    settings = loaded_from(args).settings
    file = Path(args.object)
    name = args.object
    if file.is_file():
        settings = Settings(objects=f"file://{quote(str(file.absolute().parent))}")
        name = file.name
    print(asyncio.run(_inspect(house, settings, name, as_json=args.json, whole=args.whole)))
    return 0


async def _inspect(house: House, settings: Settings, name: str, *, as_json: bool, whole: bool) -> str:
    from runnel.log.inspect import inspect_object
    from runnel.world.world import real_world

    world = real_world(lambda _task, _error: None)
    store = await house.open_objects(settings, world)
    try:
        return await inspect_object(store, name, as_json=as_json, whole=whole)
    finally:
        await store.close()
        await world.tasks.close()
