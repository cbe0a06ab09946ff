"""The parser of the extractor's text: what is kept, what is named as a flaw, what never leaks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrerank.memory.parsing import parse_memory
from memrerank.schema import Memory, Target

W, WC = Target.w, Target.wc


def test_well_formed_two_fields() -> None:
    parsed = parse_memory(
        "<within_category>Prefers  Sony,\n mid price. <evidence>Sony WH-1000; Sony SRS</evidence>"
        "</within_category>\n<cross_category>Likes walnut.<evidence>\n- Walnut desk\n"
        "2. Walnut tray</evidence></cross_category>\n",
        WC,
    )
    assert parsed.memory == Memory("Prefers Sony, mid price.", "Likes walnut.", ())
    assert parsed.evidence == ("Sony WH-1000", "Sony SRS", "Walnut desk", "Walnut tray")


@pytest.mark.parametrize(
    ("target", "text", "within", "cross", "flaws", "evidence"),
    [
        (W, "", "", "", ("missing <within_category>",), ()),
        (
            WC,
            "likes red",
            "",
            "",
            ("text outside fields", "missing <within_category>", "missing <cross_category>"),
            (),
        ),
        (
            W,
            "<within_category>likes red",
            "likes red",
            "",
            ("unclosed <within_category>",),
            (),
        ),
        (
            WC,
            "<within_category>red <cross_category>wood</cross_category>",
            "red",
            "wood",
            ("unclosed <within_category>",),
            (),
        ),
        (
            WC,
            "<within_category>red</cross_category> more",
            "red",
            "",
            (
                "unopened <cross_category>",
                "unclosed <within_category>",
                "text outside fields",
                "missing <cross_category>",
            ),
            (),
        ),
        (
            W,
            "Sure! <within_category>red</within_category> bye",
            "red",
            "",
            ("text outside fields",),
            (),
        ),
        (
            W,
            "<within_category>red</within_category><within_category>blue</within_category>",
            "red",
            "",
            ("repeated <within_category>",),
            (),
        ),
        (
            W,
            "<within_category>red <within_category>blue</within_category></within_category>",
            "red",
            "",
            (
                "nested <within_category>",
                "repeated <within_category>",
                "unopened <within_category>",
            ),
            (),
        ),
        (
            WC,
            "<cross_category>wood</cross_category><within_category>red</within_category>",
            "red",
            "wood",
            ("fields out of order",),
            (),
        ),
        (
            W,
            "<within_category>red</within_category>"
            "<cross_category>wood<evidence>desk</evidence></cross_category>",
            "red",
            "",
            ("unexpected <cross_category>",),
            ("desk",),
        ),
        (
            W,
            "<within_category>red <evidence>lamp</within_category>",
            "red",
            "",
            ("unclosed <evidence>",),
            ("lamp",),
        ),
        (
            W,
            "<within_category>red <evidence>lamp",
            "red",
            "",
            ("unclosed <within_category>", "unclosed <evidence>"),
            ("lamp",),
        ),
        (
            W,
            "<within_category>red <evidence>lamp <evidence>desk</evidence> vase</evidence> cheap"
            "</within_category>",
            "red cheap",
            "",
            ("nested <evidence>",),
            ("lamp desk vase",),
        ),
        (
            W,
            "<within_category>red <evidence>lamp</evidence> bought a desk</evidence> cheap"
            "</within_category>",
            "red cheap",
            "",
            ("unopened <evidence>",),
            ("lamp", "bought a desk"),
        ),
        (
            W,
            "<evidence>lamp</evidence><within_category>red</within_category>",
            "red",
            "",
            ("evidence outside fields",),
            ("lamp",),
        ),
        (
            W,
            "<Within_Category >red <evidence id='1'>lamp</ evidence></within_category>",
            "red",
            "",
            ("malformed <within_category>", "malformed <evidence>"),
            ("lamp",),
        ),
        (
            W,
            "<within_category>red <evidence lamp</evidence></within_category>",
            "red",
            "",
            ("malformed <evidence>",),
            ("lamp",),
        ),
        (
            W,
            "<within_category>red <evidences>lamp</evidences></within_category>",
            "red",
            "",
            ("malformed <evidence>",),
            ("lamp",),
        ),
        (
            W,
            "<within_category>likes <b>red</b> <!-- x --> things</within_category>",
            "likes red things",
            "",
            ("unknown tag <b>", "unknown tag <!>"),
            (),
        ),
        (
            W,
            "<within_category>red</within_categ",
            "red",
            "",
            ("truncated tag", "unclosed <within_category>"),
            (),
        ),
        (
            W,
            "<within_category>red <evid",
            "red",
            "",
            ("malformed <evidence>", "unclosed <within_category>", "unclosed <evidence>"),
            (),
        ),
        (
            W,
            "<within_category>price < 50 and <<b>evidence>x</within_category>",
            "price < 50 and evidence>x",
            "",
            ("unknown tag <b>",),
            (),
        ),
        (W, "<within_category></within_category>", "", "", (), ()),
    ],
)
def test_flaws_are_named_and_the_rest_is_kept(
    target: Target,
    text: str,
    within: str,
    cross: str,
    flaws: tuple[str, ...],
    evidence: tuple[str, ...],
) -> None:
    parsed = parse_memory(text, target)
    assert parsed.memory == Memory(within, cross, flaws)
    assert parsed.evidence == evidence


TAGS = ["within_category", "cross_category", "evidence"]
PIECES = st.one_of(
    st.sampled_from(
        [f"{opening}{tag}{end}" for tag in TAGS for opening in ("<", "</") for end in (">", "")]
        + ["<", ">", "</", "<b>", "< evidence>", "<EVIDENCE x>", "<!--", "-->", "\n", ";", "evid"]
    ),
    st.text(max_size=8),
)
TAG_LIKE = re.compile(r"<\s*[/!?]?\s*[A-Za-z_]")


@given(st.lists(PIECES, max_size=25).map("".join), st.sampled_from([W, WC]))
def test_any_text_is_read_and_no_tag_gets_through(text: str, target: Target) -> None:
    memory = parse_memory(text, target).memory
    assert not TAG_LIKE.search(memory.text)
    for part in (memory.within, memory.cross):
        assert part == " ".join(part.split())
    if target is W:
        assert memory.cross == ""


@given(
    st.lists(
        st.sampled_from(
            [
                *("<within_category>", "</within_category>"),
                *("<cross_category>", "</cross_category>"),
                *("<b>", "red ", "<", "SECRET1 </evidence>", "<evidence>SECRET2 "),
                *("<evidence>SECRET3 <b> SECRET4</evidence>", "<evidence>a<evidence>b</evidence>"),
                *("SECRET5</evidence>", "<Evidence SECRET6</evidence>", "</b>"),
            ]
        ),
        max_size=20,
    ).map("".join),
    st.sampled_from([W, WC]),
)
def test_no_evidence_gets_through(text: str, target: Target) -> None:
    assert "SECRET" not in parse_memory(text, target).memory.text
