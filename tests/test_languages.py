"""The table of languages."""

import re

import pytest
from sacrebleu.metrics.bleu import BLEU

from documentation import languages as page
from seq2seq.errors import ConfigError
from seq2seq.languages import check_code, known_languages, language


def test_the_table_is_sound():
    for code, row in known_languages().items():
        check_code("data.source_language", code)
        known = language(code)
        assert known.name[0].isupper()
        assert known.script
        assert known.is_cased == (known.name.lower() in {"armenian"} or known.script in CASED), code
        assert set(known.decimal_sign + known.thousands_sign) <= set(",. \xa0\u202f")
        assert row["keyboard"] == known.lower(row["keyboard"])
        keys = row["keyboard"].replace(" ", "")
        assert len(set(keys)) == len(keys)
        assert known.bleu_tokenizer is None or known.bleu_tokenizer in BLEU.TOKENIZERS
        assert known.joiner == "" or known.is_spaced or code not in ("zh", "ja")


CASED = {"Latin", "Cyrillic", "Greek", "Armenian"}


def test_nothing_is_assumed_of_an_unknown_language():
    unknown = language("tlh")
    assert unknown.name == unknown.code == "tlh"
    assert unknown.is_spaced
    assert unknown.joiner == " "
    assert not unknown.is_cased
    assert not unknown.is_alphabetic
    assert not unknown.neighbours
    assert not unknown.chat
    assert unknown.kept is None
    assert unknown.decimal_sign == unknown.thousands_sign == unknown.openings == ""
    assert unknown.bleu_tokenizer is None


def test_regions_and_scripts():
    assert language("pt-br").name == "Portuguese (br)"
    assert language("zh-Hant").joiner == language("ZH_cn").joiner == ""
    assert language("de").decimal_sign == ","
    assert language("de-CH").decimal_sign == ""  # 1'234.5


def test_case_of_single_languages():
    assert language("tr").lower("IŞIK İyi") == "ışık iyi"
    assert language("tr").upper("ışık iyi") == "IŞIK İYİ"
    assert language("el").upper("Άννα, καλημέρα") == "ΑΝΝΑ, ΚΑΛΗΜΕΡΑ"
    assert language("de").upper("groß") == "GROSS"


@pytest.mark.parametrize("code", ["es", "pt-br", "zh-Hant", "tlh", "no", "ES", "sr_Latn"])
def test_codes(code):
    check_code("data.source_language", code)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("japanese", "'japanese' is not the code of that language; use ja"),
        ("Japanese", "use ja$"),
        ("jp", "use ja$"),
        ("jpn", "use ja$"),
        ("ger", "use de$"),
        ("klingon", "'klingon' is not a code of ISO 639; use one such as es, pt-br or zh-Hant"),
        ("", "'' is not a code"),
        ("xx", "'xx' is not a code"),
    ],
)
def test_other_names_of_a_language_are_refused(code, message):
    with pytest.raises(ConfigError, match=f"^data.source_language: .*{message}"):
        check_code("data.source_language", code)


def test_page_has_the_table_of_the_code():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.table() in text, "run: python scripts/documentation/languages.py"
    columns = set(next(iter(known_languages().values())))
    assert columns <= set(re.findall("`([^`\n]+)`", text))
