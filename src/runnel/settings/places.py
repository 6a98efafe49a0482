"""Where a node's objects and ledger are when the settings do not say it: below its data directory."""

from pathlib import Path
from urllib.parse import quote

from runnel.settings.knobs import Settings


def objects_url(settings: Settings) -> str:
    return settings.objects or f"file://{quote(str((Path(settings.data_dir) / 'objects').absolute()))}"


def ledger_url(settings: Settings) -> str:
    return settings.ledger or f"sqlite://{quote(str((Path(settings.data_dir) / 'ledger.sqlite').absolute()))}"
