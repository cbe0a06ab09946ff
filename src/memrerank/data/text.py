"""Product texts: title and description out of raw metadata, cut at a number of words."""

import json
from typing import Any


def product_text(
    title: str,
    description: str | None,
    features: str | None,
    details: str | None,
    max_words: int,
) -> tuple[str, str, int]:
    """Title and description of one product, with at most `max_words` words in both together.

    The third result is how many words that cap cut off.

    The last arguments are JSON texts of the metadata fields, in the raw form (`details` an
    object) or in the Hugging Face loader's (`details` a string that holds JSON). A blank
    description is replaced by the features, and blank features by the details.
    """
    words = title.split()
    body: list[str] = []
    for field in (description, features, details):
        if body := flatten(_parse(field)).split():
            break
    room = max(0, max_words - len(words))
    cut = max(0, len(words) + len(body) - max_words)
    return " ".join(words[:max_words]), " ".join(body[:room]), cut


def flatten(value: Any) -> str:
    """Plain text of a metadata value: lists joined by spaces, objects as `key: value; ...`."""
    if value is None:
        return ""
    if isinstance(value, dict):
        parts = ((key, flatten(part)) for key, part in value.items())
        return "; ".join(f"{key}: {text}" for key, text in parts if text.strip())
    if isinstance(value, list):
        return " ".join(filter(str.strip, map(flatten, value)))
    return str(value)


def _parse(field: str | None) -> Any:
    """The value of a JSON text; a string that itself holds a JSON object is opened as well."""
    value = json.loads(field) if field else None
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value  # prose that starts with a brace
    return value
