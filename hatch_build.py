"""The package's description is README, without the links that lead into the checkout."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)([^)]+)\)")


def without_relative_links(text: str) -> str:
    """`[gaps](docs/unsupported.md)` leads nowhere outside the checkout: the file's name stays."""
    return _RELATIVE_LINK.sub(r"\1 (`\2`)", text)


class DescriptionHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": without_relative_links(text),
        }
