"""What the documents say holds: generated pages are fresh, links lead somewhere, commands do what they should."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from runnel import errors
from runnel.codec.apis import APIS
from runnel.metadata.topic_settings import TOPIC_SETTINGS
from runnel.settings import Settings, described

HERE = Path(__file__).parents[2]
PAGES = [HERE / "README.md", HERE / "CONTRIBUTING.md", *sorted((HERE / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def tool(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"tools/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HERE)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        place, _, name = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{link} leads nowhere"
        if name and target.suffix == ".py":
            text = target.read_text()
            assert re.search(rf"^(class|(async )?def) {name}\b|^{name}\b.*=", text, re.MULTILINE), f"{link}: no {name}"


def test_the_journey_names_every_floor():
    text = (HERE / "docs/journey.md").read_text()
    for folder in (HERE / "src/runnel").iterdir():
        if (folder / "__init__.py").exists():
            assert re.search(rf"\b{folder.name}\b", text), f"the journey does not pass through {folder.name}/"


def test_generated_pages_say_what_the_code_says():
    assert tool("make_docs").stale() == [], "mend it with: make docs"


def test_a_stale_page_would_be_noticed(monkeypatch):
    make_docs = tool("make_docs")
    monkeypatch.setitem(make_docs.PAGES, "settings.md", lambda: "something else")
    assert make_docs.stale() == ["settings.md"]


def test_every_setting_and_every_kind_of_error_is_explained():
    settings = (HERE / "docs/settings.md").read_text()
    for name in described(Settings):
        assert f"## `{name}`" in settings
    kinds = (HERE / "docs/errors.md").read_text()
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and kind is not errors.RunnelError:
            assert f"| `{name}`" in kinds


def test_every_kafka_api_and_topic_setting_is_told_with_what_is_offered_of_it():
    page = (HERE / "docs/kafka.md").read_text()
    for key, api in APIS.items():
        assert re.search(rf"^\| {key} \| {api.name} \| .* \| {api.first}\b", page, re.MULTILINE)
    assert re.search(r"^\| 18 \| ApiVersions \| 0 to 4 \| 0 to 4 \|$", page, re.MULTILINE)
    for name in TOPIC_SETTINGS:
        assert f"| `{name}` |" in page


def test_the_lock_fits_the_project_and_a_lock_that_does_not_is_noticed():
    check_lock = tool("check_lock")
    project, lock = (HERE / "pyproject.toml").read_text(), (HERE / "requirements.lock").read_text()
    assert check_lock.complaints(project, lock) == []
    older = re.sub(r"^crc32c==\S+", "crc32c==1.0", lock, flags=re.MULTILINE)
    assert check_lock.complaints(project, older) == ["pyproject.toml wants 'crc32c>=2.9,<3', requirements.lock has 1.0"]
    assert check_lock.complaints(project, f"{lock}\nsix==1.0\n") == ["requirements.lock has no hash for six==1.0"]


def test_change_fragments_are_named_so_that_none_is_overlooked():
    assert tool("gather_changes").misnamed(HERE / "changes") == []


def test_fragments_become_a_section_by_kind(tmp_path):
    (tmp_path / "b.fix.md").write_text("It works.\nReally.\n")
    (tmp_path / "a.feature.md").write_text("It is new.\n")
    (tmp_path / "a.news.md").write_text("?")
    gather = tool("gather_changes")
    assert gather.misnamed(tmp_path) == ["a.news.md"]
    assert (
        gather.gathered(tmp_path, "1.0")
        == "## 1.0\n\n### New\n\n- It is new.\n\n### Mended\n\n- It works.\n  Really.\n"
    )


def test_make_alone_lists_every_target():
    listed = subprocess.run(["make"], cwd=HERE, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^\.PHONY: (\S+)", (HERE / "Makefile").read_text(), re.MULTILINE)
    assert {"run", "test", "check", "sim", "contract", "bench", "docs", "lock", "clean"} <= set(targets)
    for target in targets:
        assert re.search(rf"^  make {target} +\S", listed, re.MULTILINE), f"make {target} has no ## comment"


def commands(page):
    """The lines of a page's shell blocks, comments cut off."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.timeout(600)
def test_the_commands_of_the_readme_do_what_they_should(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RUNNEL_")}
    environment["RUNNEL_TABLE_SERVICE"] = "false"
    environment |= {"CI": "true", "NO_SYSTEM_PACKAGES": "1"}
    found = commands(HERE / "README.md")
    assert found[0] == "make run"
    words = [sys.executable, "-m", "runnel", "serve", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--json"]
    node = subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        ready = json.loads(node.stdout.readline())["ready"]
        http = ready["http"].removeprefix("http://")
        environment["RUNNEL_BOOTSTRAP"] = ready["kafka"]
        for command in found[1:]:
            if command == "make test":
                continue  # we are inside it
            if command.startswith("kcat") and shutil.which("kcat") is None:
                continue  # installed by `make test`, where it may install
            if "table sync" in command and shutil.which("java") is None:
                continue  # the same
            here = command.replace("localhost:8080", http).replace("localhost:9092", ready["kafka"])
            here = here.replace(".venv/bin/runnel", f"{sys.executable} -m runnel")
            if command.startswith("curl -N"):
                here = f"{here} --silent --max-time 2 || true"  # a tail has no end
            done = subprocess.run(
                here,
                shell=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=170,
                check=False,
            )
            # `doctor` finds the node's folder in use by nobody but us, and the default port may be taken
            assert done.returncode == 0 or "doctor" in command, (command, done.stdout, done.stderr)
            assert done.stdout or done.stderr, command
            if command.startswith("kcat"):
                assert done.stdout.strip() == "1000"
    finally:
        node.terminate()
        node.wait(timeout=30)
        node.stdout.close()


def test_make_run_starts_what_the_readme_says():
    dry = subprocess.run(["make", "-n", "run"], cwd=HERE, capture_output=True, text=True, check=True).stdout
    assert ".venv/bin/runnel serve" in dry
    project = tomllib.loads((HERE / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"runnel": "runnel.__main__:main"}
