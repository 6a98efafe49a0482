"""Holds the OpenAPI documents of a node against it with Schemathesis: `python tests/fuzz/schemathesis_http.py`.

What is said of statuses, content types and bodies must be so, and no request may be answered with 500.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DOCUMENTS = ("/v1/openapi.json", "/schemas/openapi.json")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def main() -> int:
    failed = 0
    command = [
        sys.executable, "-m", "runnel", "serve", "--json", "--objects", "memory://", "--ledger", "memory:",
        "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--http-long-poll-ms", "20", "--http-sse-ms-max", "1000",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="runnel-schemathesis-") as folder:
        environment = {**os.environ, "RUNNEL_TABLE_SERVICE": "false"}
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as node:
            try:
                assert node.stdout is not None
                url = json.loads(node.stdout.readline())["ready"]["http"]
                for document in DOCUMENTS:
                    program = Path(sys.executable).with_name("schemathesis")
                    words = [
                        str(program), "run", url + document, "--url", url, "--checks", CHECKS, "--phases", "fuzzing",
                        "--max-examples", "50", "--request-timeout", "5", "--seed", "1", *sys.argv[1:],
                    ]  # fmt: skip
                    failed |= subprocess.run(words, check=False, cwd=folder).returncode
            finally:
                node.terminate()
    return failed


if __name__ == "__main__":
    sys.exit(main())
