"""Run stock Kafka clients against a node, case by case, and print the ledger.

    python tests/conformance/kafka/run.py                          all cases against a fresh `runnel serve`
    python tests/conformance/kafka/run.py --only confluent/        those whose names contain a text
    python tests/conformance/kafka/run.py --against kafka          Apache Kafka itself: are the cases right?
    python tests/conformance/kafka/run.py --bootstrap HOST:PORT    a cluster that runs already
    python tests/conformance/kafka/run.py --grow                   write what passes into allow.txt

Every case is a process of its own with a bounded time. Exits 1 when a case of allow.txt does not pass, when one fails
that FINDINGS.md does not name, or when it names one that passes. Java tools come from Maven (tools/apache_kafka.py).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.conformance.kafka.ledger import CLIENTS, CannotRun, Case, cases, grow, judged  # noqa: E402  after the path
from tests.conformance.kafka.stage import Node, Stage  # noqa: E402  as above


@contextmanager
def cluster(against: str, bootstrap: str | None) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory(prefix="kafka-conformance-") as folder:
        if against == "kafka":
            from tools.apache_kafka import ApacheKafka

            with ApacheKafka(Path(folder)) as kafka:
                yield kafka.bootstrap
            return
        node = Node(Path(folder) / "data")
        node.start()
        try:
            yield node.bootstrap
        finally:
            node.end()


def tried(case: Case, bootstrap: str, *, ours: bool) -> dict[str, Any]:
    """What became of one case."""
    if case.ends_brokers and not ours:
        return {"case": case.name, "result": "not run", "why": "it ends brokers, which are not ours"}
    command = [sys.executable, __file__, "--play", case.name, "--bootstrap", bootstrap]
    begun = time.monotonic()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, errors = process.communicate(timeout=case.seconds + 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"case": case.name, "result": "failed", "why": f"did not end within {case.seconds:.0f} s"}
    took = round(time.monotonic() - begun, 1)
    try:
        said = json.loads(out.strip().splitlines()[-1])
    except (ValueError, IndexError):
        said = {"result": "failed", "why": f"the client died: {errors[-500:]}"}
    return {"case": case.name, **said, "seconds": took}


def play(name: str, bootstrap: str) -> dict[str, str]:
    client, _, function = name.partition("/")
    case = next(each for each in cases(client) if each.function.__name__ == function)
    with tempfile.TemporaryDirectory(prefix="kafka-case-") as folder:
        try:
            case.function(Stage(bootstrap, name, Path(folder)))
        except CannotRun as reason:
            return {"result": "not run", "why": str(reason)}
        except Exception as error:  # noqa: BLE001  whatever it is, it is the case's result
            where = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in where if "/cases/" in frame.filename]
            line = f" at '{own[-1].line}'" if own else ""
            return {"result": "failed", "why": f"{type(error).__name__}: {error}{line}"[:900]}
    return {"result": "passed"}


def told(verdict: Any) -> list[str]:
    rows = [
        (verdict.lost, "is in allow.txt and does not pass"),
        (verdict.unnamed, "fails and FINDINGS.md does not name it"),
        (verdict.mended, "passes: take it out of FINDINGS.md"),
        (verdict.vanished, "is in allow.txt or FINDINGS.md and does not exist"),
    ]
    return [f"  {name} {says}" for names, says in rows for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", choices=("runnel", "kafka"), default="runnel")
    parser.add_argument("--bootstrap", metavar="HOST:PORT")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once; 2 unless said")
    parser.add_argument("--grow", action="store_true")
    parser.add_argument("--list", action="store_true", help="only name the cases")
    parser.add_argument("--json", action="store_true", help="one object for each case, and the account")
    parser.add_argument("--play", metavar="CASE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        print(json.dumps(play(args.play, args.bootstrap)))
        return 0
    known = [each for client in CLIENTS for each in cases(client)]
    chosen = [each for each in known if any(text in each.name for text in args.only)]
    if args.list:
        for each in chosen:
            print(f"{each.name}: {each.sentence}")
        return 0
    ours = args.against == "runnel"
    results: dict[str, str] = {}
    with cluster(args.against, args.bootstrap) as bootstrap, ThreadPoolExecutor(args.jobs) as pool:
        for row in pool.map(lambda each: tried(each, bootstrap, ours=ours), chosen):
            results[row["case"]] = row["result"]
            if args.json:
                print(json.dumps(row), flush=True)
            else:
                why = f"  {row['why']}" if "why" in row else ""
                print(f"{row['result']:<8} {row.get('seconds', 0):>6.1f} s  {row['case']}{why}", flush=True)
    count = {result: list(results.values()).count(result) for result in ("passed", "failed", "not run")}
    if not ours:
        print(json.dumps(count))
        return int(count["failed"] > 0)
    if args.grow:
        grow({name for name, result in results.items() if result == "passed"})
    verdict = judged(results, everything=len(chosen) == len(known))
    print(json.dumps({**count, "book": "in order" if verdict.good else "not in order"}))
    for line in told(verdict):
        print(line)
    return int(not verdict.good)


if __name__ == "__main__":
    sys.exit(main())
