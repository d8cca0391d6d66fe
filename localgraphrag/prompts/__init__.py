"""Prompts: jinja2 files that a user can read and replace.

`Prompts(folder)` looks for `NAME.j2` in the project's `prompts/` folder first, then beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from localgraphrag.errors import ConfigError
from localgraphrag.llm.units import content_hash

PACKAGED = Path(__file__).parent


class Prompts:
    """Loads and fills prompt templates.

    Parameters
    ----------
    folder : a folder whose files replace the packaged ones of the same name, or None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folders = [f for f in (folder, PACKAGED) if f is not None]
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(self.folders),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            autoescape=False,  # noqa: S701  prompts are plain text, never HTML
        )

    def render(self, name: str, **values: Any) -> str:
        """Fill the template `NAME.j2`.

        Raises ConfigError when it is missing, broken, or names a value it is not given.
        """
        try:
            return self._environment.get_template(f"{name}.j2").render(**values).strip()
        except jinja2.TemplateNotFound:
            known = ", ".join(sorted(p.stem for p in PACKAGED.glob("*.j2")))
            raise ConfigError(f"There is no prompt '{name}'. Known prompts: {known}.") from None
        except jinja2.TemplateError as error:
            raise ConfigError(
                f"The prompt file '{name}.j2' cannot be used: {error}. "
                f"It was looked for in {', '.join(map(str, self.folders))}. "
                "Mend it, or delete it from the project's prompts folder to use the packaged one."
            ) from error

    def digest(self, *names: str) -> str:
        """Hash of the named templates' texts: part of a unit's key."""
        environment, loader = self._environment, self._environment.loader
        assert loader is not None
        return content_hash(*(loader.get_source(environment, f"{name}.j2")[0] for name in names))
