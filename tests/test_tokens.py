"""What is taken for a token, and how numbers and dates are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2seq.inference.tokens import find_tokens

DATA = Path(__file__).parents[1] / "data/tokens.tsv"
COPIED = ("JSON-LD",)  # words in capitals, which models copy


def found(text: str, source: str = "es", target: str = "en") -> list[str]:
    return [text[token.start : token.end] for token in find_tokens(text, source, target)]


def written(text: str, source: str, target: str) -> list[str]:
    return [token.target for token in find_tokens(text, source, target)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Escribe a ana.b+c@mail.example.org.", ["ana.b+c@mail.example.org"]),
        ("Mira (https://a.org/b?c=1&d=2), ¿no?", ["https://a.org/b?c=1&d=2"]),
        ("Ve a www.a-b.es/c. Y a example.org!", ["www.a-b.es/c", "example.org"]),
        ("Hola {{ a.b }}, ${a} y %(n)d %s %1$s", ["{{ a.b }}", "${a}", "%(n)d", "%s", "%1$s"]),
        ("Un <b class='x'>pan</b>.<br/>Y&nbsp;más", ["<b class='x'>", "</b>", "<br/>", "&nbsp;"]),
        ("@ana_lopez y #VeranoEnMadrid #1", ["@ana_lopez", "#VeranoEnMadrid", "#1"]),
        ("userX, f.g(), h(0,6), s::v, a.py", ["userX", "f.g()", "h(0,6)", "s::v", "a.py"]),
        (r"C:\a\b.txt, /etc/hosts, ~/c, --help", [r"C:\a\b.txt", "/etc/hosts", "~/c", "--help"]),
        ("IB3456, X-200, C-19, v2.3.1, 0x7fFe", ["IB3456", "X-200", "C-19", "v2.3.1", "0x7fFe"]),
        ("12/05/2024 o 2024-05-12", ["12/05/2024", "2024-05-12"]),
        ("120 m², ½ kg, 80 km/h, -5 °C, 15 %", ["120 m²", "½ kg", "80 km/h", "-5 °C", "15 %"]),
        ("US$40, 25,50 €, $1 y 30 000 $", ["US$40", "25,50 €", "$1", "30 000 $"]),
        ("{a}/{b}, <b>{c}</b>", ["{a}", "{b}", "<b>{c}</b>"]),
    ],
)  # fmt: skip
def test_tokens_of_a_text(text: str, tokens: list[str]) -> None:
    assert found(text) == tokens


@pytest.mark.parametrize(
    "text",
    [
        "Tengo 3 gatos y 1200 libros desde 1999.",
        "A las 17:30, él/ella o y/o; 24/7.",
        "Fin.El perro… ¿Qué? (Sí)",
        "The 1990s, the 20th of 5, 5 in all; 80s; mid-1930s.",
        "Un iPhone de McDonald y JavaScript.",
        "You may go: only 3 may enter.",
        "2020-2021, a < b > c… casi",
        "Tel. 555-1234",
    ],
)
def test_other_text_has_no_tokens(text: str) -> None:
    assert (
        found(text.replace("100%", "todo")) == found(text.replace("100%", "todo"), "en", "es") == []
    )


@pytest.mark.parametrize(
    ("text", "source", "target", "expected"),
    [
        ("1.250,50 €", "es", "en", "1,250.50 €"),  # both signs: certain
        ("3,5 kg", "es", "en", "3.5 kg"),
        ("3.5 kg", "es", "en", "3.5 kg"),
        ("1.250 kg", "es", "en", "1.250 kg"),  # 1250 in Spain, 1.25 in Mexico
        ("0.250 kg", "es", "en", "0.250 kg"),
        ("3.000.000 €", "es", "en", "3,000,000 €"),
        ("3.5 kg", "en", "es", "3.5 kg"),  # Spanish is written both ways
        ("1,250 kg", "en", "de", "1.250 kg"),
        ("1.250 kg", "de", "en", "1,250 kg"),
        ("1.250 kg", "en", "de", "1,250 kg"),
        ("1,250.5 kg", "en", "xx", "1,250.5 kg"),
        ("2.3.1", "es", "en", "2.3.1"),
        ("0034.915.550.199", "es", "en", "0034.915.550.199"),
        ("12 de mayo de 1984", "es", "en", "12 May 1984"),
        ("1 de Enero", "es", "en", "1 January"),
        ("May 3rd, 1999", "en", "es", "3 de mayo de 1999"),
        ("20th of August", "en", "es", "20 de agosto"),
        ("3. Mai 1999", "de", "fr", "3 mai 1999"),
    ],
)
def test_notation(text: str, source: str, target: str, expected: str) -> None:
    assert written(f"x {text}, x", source, target) == [expected]


def test_names_of_months_are_left_to_models_of_other_languages() -> None:
    assert found("el 12 de mayo de 1984", "es", "ja") == []
    assert found("el 00 de mayo, el 32 de mayo", "es", "en") == []


def test_all_tokens_of_the_data_are_found() -> None:
    for line in DATA.read_text(encoding="utf-8").splitlines():
        _, spanish, english, theirs, ours = line.split("\t")
        if not any(token in spanish for token in COPIED):
            assert found(spanish) == theirs.split(" | ")
            assert found(english, "en", "es") == ours.split(" | ")
