"""The extractor's text to a Memory, with the evidence taken out (paper: evidence is removed
before reward scoring and before reranking).

The form that the extractor is asked for:

    <within_category>preferences <evidence>purchases cited</evidence></within_category>
    <cross_category>preferences <evidence>purchases cited</evidence></cross_category>

The second field belongs to target `wc` alone. Whatever departs from the form is named in
`Memory.flaws`; what can be read without guessing is kept. Where a text is ambiguous, it counts
as evidence, so that evidence never reaches the reranker.

The names of flaws (F is a field):

    missing <F>                 a field of the target was never opened
    unclosed <F>                read up to the next known tag, or the end of the text
    unopened <F>                a closing tag without its opening one
    repeated <F>                only the first one is read
    nested <F>                  opened inside itself; the inner one counts as repeated
    unexpected <cross_category> target `w` has no such field; it is left out
    fields out of order         cross before within; both are read
    text outside fields         left out
    unclosed <evidence>         evidence up to the end of its field
    unopened <evidence>         evidence back to the tag before
    nested <evidence>           evidence up to the outermost closing tag
    evidence outside fields     kept as evidence
    malformed <F>               attributes, spaces, capitals or a missing ">" in a known tag
    unknown tag <x>             the tag is left out, its text is kept
    truncated tag               the text ends inside a tag
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from memrerank.schema import Memory, Target

WITHIN = "within_category"
CROSS = "cross_category"
EVIDENCE = "evidence"

_TAG = re.compile(r"<(?P<gap>\s*)(?P<slash>/?)\s*(?P<name>[A-Za-z_][\w-]*)(?P<rest>[^<>\n]*>)?")
_OTHER_MARKUP = re.compile(r"<[!?][^<>]*>")
_TRUNCATED = re.compile(r"<\s*/?\s*(?P<name>[A-Za-z_]*)\s*\Z")
_TAG_START = re.compile(r"<(?=\s*[<!?/_]|\s*[^\W\d])")
_EVIDENCE_SEPARATOR = re.compile(r"[\n;|]")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")


@dataclass(frozen=True, slots=True)
class ParsedMemory:
    """A memory as the reranker may see it, and the purchases cited for it, one an item."""

    memory: Memory
    evidence: tuple[str, ...]


def parse_memory(text: str, target: Target) -> ParsedMemory:
    """Reads the extractor's text; never raises, whatever the text.

    Neither evidence nor anything that looks like a tag reaches the memory; white space is
    normalised to single spaces.
    """
    reader = _Reader(fields=(WITHIN, CROSS) if target is Target.wc else (WITHIN,))
    for token in _tokens(text):
        reader.take(token)
    return reader.finish()


@dataclass(frozen=True, slots=True)
class _Markup:
    """A tag, or what is left of one. `name` is None for all but the three known tags."""

    name: str | None
    closing: bool = False
    flaw: str | None = None


def _tokens(text: str) -> Iterator[str | _Markup]:
    """Pieces of text and markup, in order."""
    truncated = _TRUNCATED.search(text)
    if truncated and _known_name(truncated["name"]) is None:
        text = text[: truncated.start()]
        yield _Markup(None, flaw="truncated tag")
    start = position = 0
    while (position := text.find("<", position)) >= 0:
        found = _markup_at(text, position)
        if found is None:  # a plain "less than"
            position += 1
            continue
        markup, end = found
        yield text[start:position]
        yield markup
        start = position = end
    yield text[start:]


def _markup_at(text: str, position: int) -> tuple[_Markup, int] | None:
    """The markup that starts at `position` and where it ends; None where it is plain text."""
    if other := _OTHER_MARKUP.match(text, position):
        return _Markup(None, flaw="unknown tag <!>"), other.end()
    match = _TAG.match(text, position)
    if match is None:
        return None
    known = _known_name(match["name"])
    if known is not None:
        well_formed = match.group() == f"<{match['slash']}{known}>"
        flaw = None if well_formed else f"malformed <{known}>"
        return _Markup(known, bool(match["slash"]), flaw), match.end()
    if match["rest"] is None or match["gap"]:
        return None
    return _Markup(None, flaw=f"unknown tag <{match['name'][:20].lower()}>"), match.end()


def _known_name(name: str) -> str | None:
    """The known tag that a name stands for; misspelt evidence still counts as evidence."""
    name = name.lower()
    if name.startswith("evid"):
        return EVIDENCE
    return name if name in (WITHIN, CROSS) else None


@dataclass(slots=True)
class _Reader:
    """What was read so far, and where the text being read belongs."""

    fields: tuple[str, ...]  # those of the target
    flaws: dict[str, None] = field(default_factory=dict)  # an ordered set
    read: dict[str, list[str]] = field(default_factory=dict)  # by field
    evidence: list[str] = field(default_factory=list)  # one block an item
    pending: list[str] = field(default_factory=list)  # text since the last known tag
    current: str | None = None  # the open field
    kept: bool = False  # whether the open field goes into the memory
    depth: int = 0  # of open evidence tags

    def take(self, token: str | _Markup) -> None:
        """Moves on over one token."""
        if isinstance(token, str):
            self.pending.append(token)
            return
        if token.flaw:
            self._flaw(token.flaw)
        if token.name == EVIDENCE:
            self._evidence_closes() if token.closing else self._evidence_opens()
        elif token.name is not None:
            self._field_closes(token.name) if token.closing else self._field_opens(token.name)

    def finish(self) -> ParsedMemory:
        """Ends the text and gathers what was read."""
        if self.current is not None:
            self._flaw(f"unclosed <{self.current}>")
        self._end_field()
        for name in self.fields:
            if name not in self.read:
                self._flaw(f"missing <{name}>")
        memory = Memory(
            within=_clean(self.read.get(WITHIN, [])),
            cross=_clean(self.read.get(CROSS, [])),
            flaws=tuple(self.flaws),
        )
        return ParsedMemory(memory, tuple(_evidence_items(self.evidence)))

    def _field_opens(self, name: str) -> None:
        if self.current is not None:
            self._flaw(f"nested <{name}>" if name == self.current else f"unclosed <{self.current}>")
        self._end_field()
        self.current = name
        self.kept = name in self.fields and name not in self.read
        if name not in self.fields:
            self._flaw(f"unexpected <{name}>")
        elif name in self.read:
            self._flaw(f"repeated <{name}>")
        else:
            if name == WITHIN and CROSS in self.read:
                self._flaw("fields out of order")
            self.read[name] = []

    def _field_closes(self, name: str) -> None:
        if self.current != name:
            self._flaw(f"unopened <{name}>")
            if self.current is not None:
                self._flaw(f"unclosed <{self.current}>")
        self._end_field()

    def _evidence_opens(self) -> None:
        if self.depth:
            self._flaw(f"nested <{EVIDENCE}>")
        else:
            self._settle()
            if self.current is None:
                self._flaw("evidence outside fields")
        self.depth += 1

    def _evidence_closes(self) -> None:
        if self.depth > 1:
            self.depth -= 1
            return
        if self.depth == 0:
            self._flaw(f"unopened <{EVIDENCE}>")
        self.depth = 1  # what is pending counts as evidence, opened or not
        self._settle()
        self.depth = 0

    def _end_field(self) -> None:
        if self.depth:
            self._flaw(f"unclosed <{EVIDENCE}>")
        self._settle()
        self.current, self.kept, self.depth = None, False, 0

    def _settle(self) -> None:
        """Puts the pending text where it belongs."""
        text = " ".join(self.pending)
        self.pending.clear()
        if self.depth:
            self.evidence.append(text)
        elif self.current is None:
            if text.strip():
                self._flaw("text outside fields")
        elif self.kept:
            self.read[self.current].append(text)

    def _flaw(self, name: str) -> None:
        self.flaws[name] = None


def _clean(pieces: list[str]) -> str:
    """The text of a field without the start of anything that could be read as a tag."""
    return " ".join(_TAG_START.sub("", " ".join(pieces)).split())


def _evidence_items(blocks: list[str]) -> Iterator[str]:
    """The purchases cited: lines of the blocks, or parts between ";" or "|"."""
    for block in blocks:
        for item in _EVIDENCE_SEPARATOR.split(block):
            if item := " ".join(_BULLET.sub("", item).split()):
                yield item
