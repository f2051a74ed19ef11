"""Output of commands: results go to standard output, progress and messages to standard error."""

import json
from typing import Annotated, Any

from loadframe.base.terminal import PrintableConsole
from loadframe.cli.app import Topic, option

#: Emoji are off: `:name:` stays text, and rich does not load its long list of emoji.
out = PrintableConsole(emoji=False)
err = PrintableConsole(stderr=True, emoji=False)

Json = Annotated[bool, option(Topic.OUTPUT, "--json", help="Print the result as JSON.")]


def tell(text: str, style: str | None = None) -> None:
    """Write a message to standard error, unwrapped so that users can copy paths. `style` is one of rich."""
    err.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(result: Any) -> None:
    """Write a result to standard output as indented JSON."""
    print(json.dumps(result, indent=2))
