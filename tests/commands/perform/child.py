"""A process that asks, to be killed or raced: ``python -m tests.commands.perform.child ROOT URL CEILING N``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from commands.opening import open_journal
from commands.perform.asking import Asking, Retrying, Run
from commands.perform.live import Live
from commands.perform.running import run
from ledger.families import calls
from ledger.families.calls import BudgetWouldBeExceeded
from ledger.families.providers import Providers
from ledger.prompt import Prompt
from ledger.questions import question
from tests.commands.perform.provider import endpoint


async def _ask(root: Path, url: str, ceiling: int | None, count: int) -> None:
    asked = endpoint(url)
    with open_journal(root, "test", calls.FAMILY, calls.VECTORS, create=True) as opened:
        async with Live(Providers(), {}) as perform:
            asking = Asking(opened, perform, Run("run", ceiling, "test"), retrying=Retrying(tries=2, first_seconds=0.0))
            prompts = [Prompt(({"role": "user", "content": f"question {n:02}"},)) for n in range(count)]
            outcomes = await asyncio.gather(
                *(asking.ask(asked, question(asked, one, sample=0, output_limit=100)) for one in prompts),
                return_exceptions=True,
            )
    refused = sum(isinstance(one, BudgetWouldBeExceeded) for one in outcomes)
    broken = [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, BudgetWouldBeExceeded)]
    sys.stdout.write(f"answered {len(outcomes) - refused - len(broken)} refused {refused}\n")
    if broken:
        raise broken[0]


def main() -> None:
    root, url, ceiling, count = sys.argv[1:5]
    run(lambda: _ask(Path(root), url, int(ceiling) if ceiling != "none" else None, int(count)))


if __name__ == "__main__":
    main()
