"""Prompts as files: Jinja templates whose every value must be there, and be escaped before."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


@cache
def load_template(path: Path) -> Template:
    """The template in a file.

    Nothing is escaped here: what must not act as markup is for each prompt to say
    (`memrerank.escaping`).

    Raises:
        TemplateNotFound: there is no such file.
    """
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return environment.get_template(path.name)
