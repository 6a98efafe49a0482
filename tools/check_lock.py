"""Does requirements.lock still fit pyproject.toml? Asked without a network: every requirement has a pin that fits."""

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

HERE = Path(__file__).parents[1]


def complaints(project_text: str, lock_text: str) -> list[str]:
    """What is wrong, one line each."""
    project = tomllib.loads(project_text)
    pins: dict[str, list[Version]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", lock_text, flags=re.MULTILINE):
        pins.setdefault(canonicalize_name(name), []).append(Version(version))
    wanted = [*project["project"]["dependencies"]]
    for extra in project["project"].get("optional-dependencies", {}).values():
        wanted += extra
    for group in project.get("dependency-groups", {}).values():
        wanted += [entry for entry in group if isinstance(entry, str)]
    found = []
    for text in wanted:
        requirement = Requirement(text)
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not any(requirement.specifier.contains(version, prereleases=True) for version in versions):
            has = ", ".join(map(str, versions)) or "nothing"
            found.append(f"pyproject.toml wants {text!r}, requirements.lock has {has}")
    unhashed = [
        entry
        for entry in re.split(r"\n(?=\S)", lock_text.strip())
        if not entry.startswith("#") and "--hash" not in entry
    ]
    found += [f"requirements.lock has no hash for {entry.split()[0]}" for entry in unhashed if entry]
    return found


if __name__ == "__main__":
    wrong = complaints((HERE / "pyproject.toml").read_text(), (HERE / "requirements.lock").read_text())
    for line in wrong:
        print(line)
    if wrong:
        print("mend it with: make lock")
    sys.exit(bool(wrong))
