"""Gathers the fragments of changes/ into CHANGELOG.md for a release: `python tools/gather_changes.py 0.2.0`."""

import argparse
import re
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
KINDS = {"breaking": "Breaking", "removal": "Removed", "feature": "New", "fix": "Mended", "docs": "Documentation"}
FRAGMENT = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md")


def misnamed(folder: Path) -> list[str]:
    """Fragments that would be overlooked."""
    return sorted(file.name for file in folder.iterdir() if not FRAGMENT.fullmatch(file.name))


def gathered(folder: Path, version: str) -> str:
    """The section of one release."""
    lines = [f"## {version}", ""]
    for kind, title in KINDS.items():
        texts = [file.read_text(encoding="utf-8").strip() for file in sorted(folder.glob(f"*.{kind}.md"))]
        if texts:
            lines += [f"### {title}", "", *(f"- {text}".replace("\n", "\n  ") for text in texts), ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    version = parser.parse_args().version
    folder, log = HERE / "changes", HERE / "CHANGELOG.md"
    if wrong := misnamed(folder):
        sys.exit(f"changes/{wrong[0]} is not named <some-words>.<kind>.md with a kind of {', '.join(KINDS)}")
    head, _, rest = log.read_text(encoding="utf-8").partition("\n## ")
    older = f"\n## {rest}" if rest else ""
    log.write_text(f"{head.rstrip()}\n\n{gathered(folder, version).rstrip()}\n{older}", encoding="utf-8")
    for file in folder.glob("*.md"):
        file.unlink()


if __name__ == "__main__":
    main()
