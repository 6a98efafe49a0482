"""Run the published conformance suite of the Durable Streams protocol and print a score as JSON.

    python tests/conformance/http/run.py                                  a node of our own, in a temporary folder, and differential.py
    python tests/conformance/http/run.py --reference                      the npm reference server, as a check of the harness
    python tests/conformance/http/run.py --url http://127.0.0.1:8080      a server that runs already
    python tests/conformance/http/run.py --serve "runnel serve --http 127.0.0.1:{port} ..."

`--passes FILE` names the list of tests that have passed before: one that does not pass any more is a failure, and
`--grow` adds what is new. `--only TEXT` runs the tests whose names contain it. Needs node; the packages are installed
beside this file at first, in the versions that package.json names.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUR_NODE = (
    "{python} -m runnel serve --data-dir {folder} --http 127.0.0.1:{port} --kafka 127.0.0.1:0 "
    "--http-long-poll-ms 1500 --log-level warning"
)


def install():
    wanted = (HERE / "package.json").read_text()
    mark = HERE / "node_modules" / ".installed"
    if not mark.exists() or mark.read_text() != wanted:
        subprocess.run(
            ["npm", "install", "--no-package-lock", "--no-fund", "--no-audit", "--silent"], cwd=HERE, check=True
        )
        mark.write_text(wanted)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextmanager
def started(command, port, patience=30.0):
    """A server process, from its first open port until it is ended by its id."""
    process = subprocess.Popen(command, cwd=Path.cwd(), stdout=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + patience  # noqa: TID251  real time, outside the house
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > give_up:  # noqa: TID251  as above
                    raise SystemExit(f"the server did not open port {port}: {shlex.join(command)}") from None
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def reference(port):
    return ["node", str(HERE / "reference.mjs"), str(port)]


def score(url, *, only=None, subscriptions=True, long_poll_ms=5000):
    """Run the suite against a URL. Returns a dictionary with the names of tests by what became of them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = ["npx", "--no-install", "vitest", "run", "--reporter=json", f"--outputFile={report}"]
        if only:
            command += ["-t", re.escape(only)]
        environment = {
            **os.environ,
            "CONFORMANCE_TEST_URL": url,
            "CONFORMANCE_SUBSCRIPTIONS": "1" if subscriptions else "0",
            "CONFORMANCE_LONG_POLL_MS": str(long_poll_ms),
        }
        done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
        if not report.exists():
            raise SystemExit(f"the suite did not run:\n{done.stdout}\n{done.stderr}")
        results = [test for file in json.loads(report.read_text())["testResults"] for test in file["assertionResults"]]
    named = {"passed": [], "failed": {}, "skipped": []}
    for test in results:
        name = " > ".join([*test["ancestorTitles"], test["title"]])
        if test["status"] == "passed":
            named["passed"].append(name)
        elif test["status"] == "failed":
            named["failed"][name] = "\n".join(test["failureMessages"])[:600]
        else:
            named["skipped"].append(name)
    return named


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url")
    where.add_argument("--serve", help="a command; {port} stands for the HTTP port")
    where.add_argument("--reference", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--no-subscriptions", action="store_true")
    parser.add_argument("--passes", type=Path)
    parser.add_argument("--grow", action="store_true")
    parser.add_argument("--failures", action="store_true", help="tell each failure's message")
    options = parser.parse_args()
    install()
    folder = tempfile.mkdtemp(prefix="runnel-conformance-")
    ours = not (options.url or options.serve or options.reference)
    if ours:
        options.serve = OUR_NODE.format(python=sys.executable, folder=folder, port="{port}")
        options.passes = options.passes or HERE / "passes.txt"
    how = {"only": options.only, "subscriptions": not options.no_subscriptions}
    if options.url:
        found = score(options.url, **how)
    else:
        port = free_port()
        command = reference(port) if options.reference else shlex.split(options.serve.replace("{port}", str(port)))
        with started(command, port):
            found = score(f"http://127.0.0.1:{port}", **how)
    shutil.rmtree(folder, ignore_errors=True)
    lost = []
    if options.passes:
        before = set(options.passes.read_text().splitlines()) if options.passes.exists() else set()
        lost = sorted(before - set(found["passed"])) if not options.only else []
        if options.grow:
            options.passes.write_text("".join(f"{name}\n" for name in sorted(before | set(found["passed"]))))
    failed = found["failed"] if options.failures else sorted(found["failed"])
    sys.stdout.write(json.dumps({
        "passed": len(found["passed"]), "failed": len(found["failed"]), "skipped": len(found["skipped"]),
        "failures": failed, "lost": lost,
    }, indent=2) + "\n")  # fmt: skip
    if ours:
        sys.stdout.flush()
        different = subprocess.run([sys.executable, str(HERE / "differential.py"), "--runs", "10"], check=False)
        lost += ["differential"] * (different.returncode != 0)
    sys.exit(1 if lost or (found["failed"] and not options.passes and not options.reference) else 0)


if __name__ == "__main__":
    main()
