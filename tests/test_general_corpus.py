"""The general corpus: what each format gives, and what is held out, cleaned and counted."""

from __future__ import annotations

import gzip
import json
import string
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import polib
import pytest

from corpora.general.prepare import DEV, FILES, OUTPUTS
from corpora.general.readers import READERS, lang_history
from corpora.general.sources import Files, Repository, read_sources
from corpora.general.text import is_translation, plain_markdown, plain_rst, sentence_pairs
from prepare_data import main
from release import ship_model
from seq2seq.data.cleaning import fold

ROOT = Path(__file__).parents[1]


def read(folder: Path, form: str, spanish: str, english: str, suffix: str) -> list[tuple[str, str]]:
    paths = folder / f"es{suffix}", folder / f"en{suffix}"
    for path, text in zip(paths, (spanish, english), strict=True):
        path.write_text(text, encoding="utf-8")
    pairs = READERS[form](*paths)
    return [(" ".join(a.split()), " ".join(b.split())) for a, b in pairs if a.strip()]


# --- formats


def test_gettext_without_markup_and_unfinished_messages(tmp_path: Path) -> None:
    text = """
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "Use :meth:`~list.sort` or ``a * b``, see :pep:`8` and *this* `page <https://x.org>`_."
msgstr "Use :meth:`~list.sort` o ``a * b``, vea :pep:`8` y *esta* `página <https://x.org>`_."

#, fuzzy
msgid "Unsure"
msgstr "Inseguro"

msgid "Not translated"
msgstr ""

#~ msgid "Old"
#~ msgstr "Viejo"
"""
    assert read(tmp_path, "po rst", text, "", ".po") == [
        (
            "Use sort o a * b, vea PEP 8 y esta página.",
            "Use sort or a * b, see PEP 8 and this page.",
        )
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":ref:`the table <t>` of :class:`!A`", "the table of A"),
        (":c:func:`Py_None`, ``__init__`` and **all** 2*3*4", "Py_None, __init__ and all 2*3*4"),
        (r"a `term`\ s", "a terms"),
    ],
)
def test_text_of_rst(text: str, expected: str) -> None:
    assert plain_rst(text) == expected


def test_text_of_markdown() -> None:
    text = "See **[this](x.md)**, [`a_b`][] and `__c__` &mdash; <b>now</b>. {/*id*/}"
    assert plain_markdown(text).strip() == "See this, a_b and __c__ — now."


SPANISH = """---
title: no
---

# Título { #title }

Un párrafo con `código`.

```sh
esto no
```

- uno
- dos

## Otra

Sobra.

Un bloque.

## Tercera

`solo código`

Fin.
"""
ENGLISH = """---
title: no
---

# Title

A paragraph with `code`.

```sh
not this
```

- one
- two

## Other

One block.

## Third

`only code`

End.
"""


def test_markdown_pairs_blocks_of_sections_with_equal_structure(tmp_path: Path) -> None:
    assert read(tmp_path, "markdown", SPANISH, ENGLISH, ".md") == [
        ("Título", "Title"),
        ("Un párrafo con código.", "A paragraph with code."),
        ("uno", "one"),
        ("dos", "two"),
        ("Tercera", "Third"),
        ("Fin.", "End."),
    ]
    assert read(tmp_path, "markdown", SPANISH, ENGLISH + "\n## More\n", ".md") == []


def test_cnxml_pairs_paragraphs_by_ids(tmp_path: Path) -> None:
    frame = '<document xmlns="http://cnx.rice.edu/cnxml"><content>{}</content></document>'
    spanish = frame.format(
        '<para id="p1"><title>Conversión</title>Son <m:math xmlns:m="x"><m:mn>3</m:mn> '
        "<m:mi>m</m:mi></m:math>, "
        '<emphasis>no</emphasis> más.</para><para id="p2">Vea la <link target-id="f"/>.'
        '</para><equation id="e">x</equation><figure id="f"><media alt="Una foto."/></figure>'
        '<list id="l"><item>uno</item><item>dos</item></list><para id="p3">Nuevo.</para>'
    )
    english = frame.format(
        '<list id="l"><item>one</item></list><para id="p2">See <link target-id="f"/>.</para>'
        '<figure id="f"><media alt="A photo."/></figure><equation id="e">y</equation>'
        '<para id="p1"><title>Conversion</title>It is <m:math xmlns:m="x"><m:mn>3</m:mn> '
        "<m:mi>m</m:mi></m:math>, no <emphasis>more</emphasis>.</para>"
    )
    assert read(tmp_path, "xml", spanish, english, ".cnxml") == [
        ("Son 3m, no más.", "It is 3m, no more."),
        ("Conversión", "Conversion"),
        ("Vea la \ufffc.", "See \ufffc."),
        ("Una foto.", "A photo."),
    ]


def test_docbook_pairs_parts_of_equal_structure(tmp_path: Path) -> None:
    frame = """<?xml version="1.0" encoding="utf-8"?>
    <refentry xml:id="f" xmlns="http://docbook.org/ns/docbook">
     <refsect1 role="description">&reftitle.description;<para>{}</para></refsect1>
     <refsect1 role="parameters"><para><variablelist><varlistentry><term>a</term>
      <listitem><para>{}</para></listitem></varlistentry></variablelist></para></refsect1>
     <refsect1 role="notes"><para>{}</para>{}</refsect1>
     <programlisting><![CDATA[<?php f(); ?>]]></programlisting></refentry>"""
    spanish = frame.format("Devuelve &null;.", "El n&uacute;mero.", "Nota.", "<para>Otra.</para>")
    english = frame.format("Returns &null;.", "The number.", "Note.", "")
    assert read(tmp_path, "xml", spanish, english, ".xml") == [
        ("Devuelve null.", "Returns null."),
        ("El número.", "The number."),
    ]


@pytest.mark.parametrize("suffix", [".json", ".yml"])
def test_strings_are_paired_by_keys(tmp_path: Path, suffix: str) -> None:
    spanish = (
        '{"es": {"a": {"b": "<b>Hola</b>,<br>%{name}"}, "list": ["uno", "$t(x.y)"], "c": "x"}}'
    )
    english = '{"en": {"list": ["one", "{{x}}s"], "a": {"b": "Hello, %{name}"}, "d": "y", "e": 1}}'
    assert read(tmp_path, "strings", spanish, english, suffix) == [
        ("Hola, %{name}", "Hello, %{name}"),
        ("uno", "one"),
        ("\ufffc", "\ufffcs"),
    ]


PLACEHOLDERS = """
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"

msgid "<color_red>Hot</color>, <info>%d%% full</info>"
msgstr "<color_red>Caliente</color>, <info>%d%% lleno</info>"

msgid "<bold>A <good>safe</good> place</bold>, 5%%"
msgstr "Un lugar <good>seguro</good>, 5%%"

msgid "apple"
msgid_plural "apples"
msgstr[0] "manzana"
msgstr[1] "manzanas"
"""


def test_compiled_catalogues_with_plurals_and_placeholders(tmp_path: Path) -> None:
    path = tmp_path / "es.mo"
    polib.pofile(PLACEHOLDERS).save_as_mofile(str(path))
    assert sorted(READERS["po message"](path, path)) == [
        ("Caliente, \ufffc% lleno", "Hot, \ufffc% full"),
        ("Un lugar seguro, 5%", "A safe place, 5%"),
        ("manzana", "apple"),
        ("manzanas", "apples"),
    ]


def test_lines_without_their_context(tmp_path: Path) -> None:
    assert read(tmp_path, "lines", "Es ella.\nSí.\n", "Ana. <sep> It is her.\nYes.\n", "") == [
        ("Es ella.", "It is her."),
        ("Sí.", "Yes."),
    ]
    with pytest.raises(ValueError, match="2 lines for 1"):
        read(tmp_path, "lines", "Uno.\nDos.\n", "One.\n", "")


def test_html_paragraphs_by_ids(tmp_path: Path) -> None:
    frame = '<html><head><title>{}</title></head><body><h1 id="h">{}</h1><p>{}</p>{}</body></html>'
    menu = '<span id="m"><span class="MAC"><span>Prefs</span></span><span>Menú</span></span>'
    spanish = frame.format("No", "Uno", "No", f'<p id="a">Abra {menu}.</p><p id="b">Dos</p>')
    english = frame.format("No", "One", "No", f'<p id="b">Two</p><p id="a">Open {menu}.</p>')
    assert read(tmp_path, "html", spanish, english, ".html") == [
        ("Uno", "One"),
        ("Abra Menú.", "Open Menú."),
        ("Dos", "Two"),
    ]


def test_wml_pairs_sections_with_equal_elements(tmp_path: Path) -> None:
    frame = (
        '#use wml::page title="x"\n<define-tag pagetitle>{}</define-tag>\n'
        "<p>{} <em>x</em> <current_date>.\n# no\n<p>{}\n<h2>{}</h2>\n<ul><li>{}{}</ul>"
        "<h2>{}</h2><pre>no</pre><p>{}</p>"
    )
    spanish = frame.format("Inicio", "El", "Dos.", "Lista", "uno", "<li>dos", "Fin", "Ya.")
    english = frame.format("Start", "The", "Two.", "List", "one", "", "End", "Done.")
    assert read(tmp_path, "wml", spanish, english, ".wml") == [
        ("Inicio", "Start"),
        ("El x \ufffc.", "The x \ufffc."),
        ("Dos.", "Two."),
        ("Fin", "End"),
        ("Ya.", "Done."),
    ]
    assert read(tmp_path, "wml", spanish, f"{english}<h2>More</h2>", ".wml") == []


def test_mozilla_strings_of_all_commits(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True)

    path = tmp_path / "es-ES/firefox/new.lang"
    path.parent.mkdir(parents=True)
    git("init")
    for text in (
        "## active ##\n\n# note\n;Hello\nHola\n\n;Bye\nBye {ok}\n",
        "## active ##\n\n# note\n;Hello\n¡Hola!\n\n;Bye <b>now</b>\nAdiós\n",
    ):
        path.write_text(text, encoding="utf-8")
        git("add", ".")
        git("commit", "-m", "x")
    assert set(lang_history(tmp_path, "es-*/*.lang")) == {
        ("Hola", "Hello"), ("¡Hola!", "Hello"), ("Bye", "Bye"), ("Adiós", "Bye now"),
    }  # fmt: skip


def test_dictionary_without_definitions(tmp_path: Path) -> None:
    entries = {
        "00databaseinfo": "about\n\n1. it\n",
        "palm": "palm /pɑːm/ <n>\n1. palmera, palma, otra 2.\nA tree.\n 3.\nWood.\n2. palma\nA.\n",
        "pay for": "pay for <v>\npagar 2.\nTo cover costs.\n",
    }
    digits = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    index, data = "", b""
    for word, entry in entries.items():
        numbers = (digits[n // 64] + digits[n % 64] for n in (len(data), len(entry.encode())))
        index += f"{word}\t{chr(9).join(numbers)}\n"
        data += entry.encode()
    path = tmp_path / "a.index"
    path.write_text(index, encoding="utf-8")
    path.with_suffix(".dict.dz").write_bytes(gzip.compress(data))
    assert list(READERS["dictionary"](path, path)) == [
        ("palmera", "palm"), ("palma", "palm"), ("palma", "palm"), ("pagar", "pay for"),
    ]  # fmt: skip


def test_names_of_cldr(tmp_path: Path) -> None:
    frame = (
        '<ldml><localeDisplayNames><languages><language type="es">{}</language>'
        '<language type="{}">x</language></languages></localeDisplayNames><numbers><currencies>'
        '<currency type="EUR"><displayName>{}</displayName><displayName count="other">{}'
        "</displayName><symbol>€</symbol></currency></currencies></numbers>"
        '<annotations><annotation cp="🐶">{}</annotation>'
        '<annotation cp="🐶" type="tts">{}</annotation></annotations></ldml>'
    )
    spanish = frame.format("español", "aa", "euro", "euros", "cara | perro", "cara de perro")
    english = frame.format("Spanish", "bb", "Euro", "euros", "dog | face", "dog face")
    assert read(tmp_path, "cldr", spanish, english, ".xml") == [
        ("español", "Spanish"),
        ("euro", "Euro"),
        ("euros", "euros"),
        ("cara de perro", "dog face"),
    ]


def test_questions_are_read_without_their_answers(tmp_path: Path) -> None:
    spanish, english = (
        json.dumps([{"context": context, "qas": [{"question": question, "answers": ["z"]}]}])
        for context, question in (("Texto.", "¿Qué?"), ("Text.", "What?"))
    )
    assert read(tmp_path, "strings", spanish, english, ".json") == [
        ("Texto.", "Text."),
        ("¿Qué?", "What?"),
    ]


# --- sentences and cleaning


@pytest.mark.parametrize(
    ("spanish", "english", "expected"),
    [
        ("Ven. ¿Vienes?", "Come. Are you coming?", 2),
        ("Ven. Ya. Corre.", "Come now. Run.", 1),
        ("Uno.\nEl Sr. Gil.", "One.\nMr. Gil.", 2),
        ("Esto\nsigue aquí.", "This\ncontinues here.", 1),
        ("Sí. Pero hoy no vamos a ir a la casa de nadie.", "Yes, but today we do not go. No.", 1),
    ],
)
def test_paragraphs_are_split_where_both_sides_agree(
    spanish: str, english: str, expected: int
) -> None:
    found = list(sentence_pairs(spanish, english))
    assert len(found) == expected
    assert " ".join(" ".join(a.split()) for a, _ in found) == " ".join(spanish.split())


@pytest.mark.parametrize(
    ("spanish", "english", "expected"),
    [
        ("El gato", "The cat", True),
        ("The cat is in the house", "The cat is in the house.", False),
        ("So this is not translated", "This is not translated", False),
        ("Vea la \ufffc.", "See \ufffc.", False),
        ("x = 1", "y = 1", False),
    ],
)
def test_untranslated_and_incomplete_pairs(spanish: str, english: str, expected: bool) -> None:
    assert is_translation(spanish, english) is expected


# --- sources


# A Spanish file and its English counterpart of every row of sources.tsv, as the repositories name
# them.
COUNTERPARTS = {
    "python/python-docs-es": ("c-api/none.po", "c-api/none.po"),
    "php/doc-es": ("reference/zip/f.xml", "reference/zip/f.xml"),
    "angular-hispano/angular-docs-es": (
        "adev-es/src/content/ai/overview.md", "adev-es/src/content/ai/overview.en.md",
    ),
    "nodejs/i18n": ("content/v12.x/es-ES/doc/api/path.md", "content/v12.x/en-US/doc/api/path.md"),
    "electron/i18n": (
        "content/current/es-ES/docs/tutorial/a.md", "content/current/en-US/docs/tutorial/a.md",
    ),
    "github/opensource.guide": ("_articles/es/legal.md", "_articles/legal.md"),
    "fastapi/fastapi": ("docs/es/docs/tutorial/a.md", "docs/en/docs/tutorial/a.md"),
    "numpy/numpy.org": ("content/es/about.md", "content/en/about.md"),
    "reactjs/es.react.dev": ("src/content/learn/a.md", "src/content/learn/a.md"),
    "tldr-pages/tldr": ("pages.es/common/tar.md", "pages/common/tar.md"),
    "godotengine/godot-editor-l10n": ("editor/es.po", "editor/es.po"),
    "open-contracting/standard": ("docs/locale/es/LC_MESSAGES/a/b.po",) * 2,
    "open-contracting/infrastructure": ("docs/locale/es/LC_MESSAGES/a/b.po",) * 2,
    "openownership/data-standard": ("docs/locale/es/LC_MESSAGES/a/b.po",) * 2,
    "scratchfoundation/scratch-l10n": ("editor/blocks/es.json", "editor/blocks/en.json"),
    "18F/identity-idp": ("config/locales/es.yml", "config/locales/en.yml"),
    "codeforamerica/vita-min": (
        "config/locales/state_file/faq.es.yml", "config/locales/state_file/faq.en.yml",
    ),
    "vitejs/docs-es": ("docs/guide/index.md", "docs/guide/index.md"),
    "open-sdg/sdg-translations": ("translations/es/menu.yml", "translations/en/menu.yml"),
    "tico-19/tico-19.github.io": ("data/tico19-testset.zip",) * 2,
    "google-deepmind/xquad": ("xquad.es.json", "xquad.en.json"),
    "omunroe-com/debwebwml": ("spanish/CD/a.wml", "english/CD/a.wml"),
    "mozilla-l10n/www.mozilla.org": ("es-MX/a.lang",) * 2,
    "mozilla/legal-docs": ("es-ES/websites_tou.md", "en/websites_tou.md"),
    "IRS-Public/direct-file": (
        "direct-file/df-client/df-client-app/src/locales/es.yaml",
        "direct-file/df-client/df-client-app/src/locales/en.yaml",
    ),
    "bkeepers/producingoss": ("es/ch01.xml", "en/ch01.xml"),
    "libreoffice-help-es": (
        "usr/share/libreoffice/help/es/text/shared/05/a.html",
        "usr/share/libreoffice/help/en-US/text/shared/05/a.html",
    ),
    "dict-freedict-eng-spa": ("usr/share/dictd/freedict-eng-spa.index",) * 2,
    "unicode-cldr-core": (
        "usr/share/unicode/cldr/common/main/es.xml", "usr/share/unicode/cldr/common/main/en.xml",
    ),
}  # fmt: skip
# Of repositories with several rows: by the beginning of the pattern.
SEVERAL = {
    "usr/share/locale/es_ES": ("usr/share/locale/es_ES/LC_MESSAGES/cataclysm-dda.mo",) * 2,
    "usr/share/locale/es_AR": ("usr/share/locale/es_AR/LC_MESSAGES/cataclysm-dda.mo",) * 2,
    "_i18n/es/": ("_i18n/es/resources/moneropedia/weblate/a.po",) * 2,
    "_i18n/es.": ("_i18n/es.yml", "_i18n/en.yml"),
    "data/sentences": (
        "data/sentences/test/geneval-sentences-feminine-test.en_es.es",
        "data/sentences/test/geneval-sentences-feminine-test.en_es.en",
    ),
    "data/context": (
        "data/context/geneval-context-wikiprofessions-original-dev.en_es.es",
        "data/context/geneval-context-wikiprofessions-2to1-dev.en_es.en",
    ),
    "CoCoA-MT/train": (
        "CoCoA-MT/train/en-es/formality-control.train.telephony.en-es.informal.feminine.es",
        "CoCoA-MT/train/en-es/formality-control.train.telephony.en-es.en",
    ),
    "CoCoA-MT/test": (
        "CoCoA-MT/test/en-es/formality-control.test.telephony.en-es.formal",
        "CoCoA-MT/test/en-es/formality-control.test.telephony.en-es",
    ),
}


@pytest.mark.parametrize("files", read_sources(), ids=lambda files: files.repositories[0].name)
def test_files_of_a_source_are_found(files: Files, tmp_path: Path) -> None:
    name = files.repositories[0].name
    if files.counterpart == "ids":
        names = ("modules/m1/index.cnxml", "modules/m2/index.cnxml")
    else:
        several = (found for start, found in SEVERAL.items() if files.pattern.startswith(start))
        names = COUNTERPARTS.get(name) or next(several)
    roots = [files.repositories[n].folder(tmp_path) for n in (0, -1)]
    paths = [root / name for root, name in zip(roots, names, strict=True)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('<a id="x1"/><b id="x2"/>')
    other = roots[1] / "modules/m3/index.cnxml"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text('<a id="x2"/><b id="x3"/>')
    assert list(files.pairs(tmp_path)) == [tuple(paths)]
    paths[0].unlink()
    assert list(files.pairs(tmp_path)) == []


def test_commands_that_clone(tmp_path: Path) -> None:
    first, second = Repository("a/b", "12345678"), Repository("c/d", "", "a/b")
    assert first.commands(Path("clones")) == [
        "git clone https://github.com/a/b clones/a-b",
        "git -C clones/a-b checkout --detach 12345678",
    ]
    assert second.commands(Path("clones"))[1] == (
        "git -C clones/c-d checkout --detach $(git -C clones/c-d rev-list -1 "
        '--before="$(git -C clones/a-b log -1 --format=%cI)" HEAD)'
    )


def test_commands_that_unpack_a_package() -> None:
    assert Repository("a-data", "4:2.1-3").commands(Path("clones")) == [
        "apt-get download a-data=4:2.1-3",
        "dpkg-deb --extract a-data_*.deb clones/a-data_2.1-3 && rm a-data_*.deb",
    ]


def test_two_commits_of_a_repository_have_two_folders() -> None:
    [files] = (each for each in read_sources() if "producingoss" in each.repositories[0].name)
    folders = [each.folder(Path("clones")).name for each in files.repositories]
    assert folders == ["bkeepers-producingoss", "bkeepers-producingoss-en"]


# --- the command


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """Return clones of XQuAD, TICO-19, Scratch and Vite, with one pair of each kind to drop."""
    folder = tmp_path / "clones"

    def write(repository: str, name: str, text: str) -> None:
        path = folder / repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    for language, word in (("es", "Texto de prueba"), ("en", "Text of a test")):
        write("google-deepmind-xquad", f"xquad.{language}.json", json.dumps([word]))
        strings = {"a": word, "b": {"es": "Guardar", "en": "Save"}[language], "c": "OK"}
        strings["d"] = {"es": "Guardar", "en": "Save"}[language]
        strings["e"] = {"es": "Ya dicho", "en": "Said already"}[language]
        write("scratchfoundation-scratch-l10n", f"a/{language}.json", json.dumps(strings))
        write("scratchfoundation-scratch-l10n", f"b/{language}.json", "{")
    write("mozilla-l10n-www.mozilla.org", "es-ES/a.lang", "not a clone")
    write("vitejs-docs-es", "docs/index.md", "# Inicio\n\nUno aquí. Dos allí.\n")
    write("vitejs-vite", "docs/index.md", "# Start\n\nOne here. Two there.\n")
    archive = folder / "tico-19-tico-19.github.io/data/tico19-testset.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as bundle:
        for split in ("dev", "test"):
            rows = ["sourceLang\ttargetLang\tsourceString\ttargetString\tstringID"]
            rows += [
                f"en\tes-LA\tRow {split} {n} of {document}\tFila {split} {n} de {document}"
                f"\t{document}:{n}"
                for document in ("First", "Second", "Third")
                for n in range(400)
            ]
            name = f"tico19-testset/{split}/{split}.en-es-LA.tsv"
            bundle.writestr(name, "".join(f"{row}\n" for row in rows))
    return folder


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], clones: Path, tmp_path: Path) -> Call:
    held_out = tmp_path / "valid.tsv"
    held_out.write_text("algo\tsomething\tSaid already!\n")

    def run(*more: str) -> tuple[int, str, str]:
        out = str(tmp_path / "out")
        status = main(["general", str(clones), "--out", out, "--held-out", str(held_out), *more])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_general_corpus(call: Call, tmp_path: Path) -> None:
    status, out, _ = call("--skip-missing")
    assert status == 0
    folder = tmp_path / "out"
    train, tico = rows(folder / "train.tsv"), rows(folder / "dev-tico.tsv")
    assert rows(folder / "dev-xquad.tsv") == [["Texto de prueba", "Text of a test"]]
    # Two documents of 800 rows are enough for 1,400; the third is whole in the training pairs.
    assert (len(tico), len(train)) == (1600, 4 + 800)
    assert not {row[0].split()[-1] for row in tico} & {
        row[0].split()[-1] for row in train if row[0].startswith("Fila")
    }
    assert [row for row in train if not row[0].startswith("Fila")] == [
        ["Guardar", "Save"], ["Inicio", "Start"], ["Uno aquí.", "One here."],
        ["Dos allí.", "Two there."],
    ]  # fmt: skip
    assert rows(folder / "valid.tsv") == [
        ["algo", "something"], ["Texto de prueba", "Text of a test"]
    ]  # fmt: skip
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["pairs"] == len(train)
    dropped = metadata["dropped"]
    assert (dropped["duplicate"], dropped["overlap with valid or test"]) == (1, 2)
    found = {each["source"]: each for each in metadata["sources"]}
    assert found.keys() == {"Scratch", "Vite", "TICO-19", "XQuAD", "Mozilla's web site"}
    assert (found["TICO-19"]["dev"], found["TICO-19"]["train"]) == (1600, 800)
    assert found["Scratch"]["commits"] == {"scratchfoundation/scratch-l10n": ["unknown"]}
    [counts] = (line.split() for line in out.splitlines() if line.startswith("TICO-19"))
    assert counts == ["TICO-19", "3", "2,400", "1,600", "800", "CC0"]
    assert "cannot be read (1 files of Scratch): scratchfoundation-scratch-l10n/b/es.json" in out
    assert "cannot be read (1 files of Mozilla's web site): mozilla-l10n-www.mozilla.org: " in out
    again, _, err = call("--skip-missing")
    assert again == 2
    assert "has train.tsv, valid.tsv, dev-tico.tsv, dev-xquad.tsv, metadata.json already" in err
    assert call("--skip-missing", "--force")[0] == 0


def test_sentences_to_choose_on_are_all_pairs_of_an_english_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEV, "dialogue.tsv", ("dev-dialogue.tsv", 4))
    monkeypatch.setattr("corpora.general.prepare.OF_SENTENCES", {"dialogue.tsv"})
    folder = tmp_path / "clones/amazon-science-contrastive-controlled-mt/CoCoA-MT/test/en-es"
    folder.mkdir(parents=True)
    english = [f"This is the number {n} of the sentences to translate" for n in range(5)]
    for kind in ("formal", "informal"):
        spanish = [f"Esta es la frase {kind} número {n} que traducir" for n in range(5)]
        (folder / f"a.{kind}").write_text("\n".join([*spanish, f"Hola, {kind}"]))
    (folder / "a").write_text("\n".join([*english, "Hello, you"]))
    held_out, out = tmp_path / "valid.tsv", tmp_path / "out"
    held_out.write_text("algo\tsomething\n")
    options = ("--held-out", str(held_out), "--out", str(out), "--skip-missing")
    assert main(["general", str(tmp_path / "clones"), *options]) == 0
    chosen, train = rows(out / "dev-dialogue.tsv"), rows(out / "dialogue.tsv")
    assert (len(chosen), len(train)) == (4, 8)
    assert not {target for _, target in chosen} & {target for _, target in train}
    assert ["Hola, formal", "Hello, you"] in train


def test_missing_clones_are_named_by_the_commands_that_make_them(call: Call) -> None:
    status, out, err = call()
    assert status == 2
    assert "git clone https://github.com/python/python-docs-es" in out
    assert "checkout --detach 91f4ccc0" in out
    assert "scratch" not in out
    assert "clones are missing; run the commands above, or pass --skip-missing" in err


def test_clones_without_pairs_are_refused(call: Call, clones: Path) -> None:
    for path in clones.rglob("*.*"):
        if path.is_file():
            path.unlink()
    (clones / "tico-19-tico-19.github.io").rename(clones / "other")
    status, _, err = call("--skip-missing")
    assert status == 2
    assert "no pairs remain; check that its clones have their files" in err


def test_sets_to_choose_on_belong_to_sources() -> None:
    sources = read_sources()
    outputs = {files.output for files in sources}
    assert DEV.keys() <= {files.source for files in sources} | outputs
    assert set(OUTPUTS) == outputs


def test_documentation_lists_the_sources() -> None:
    card = ship_model.CORPORA["general"].text
    table = card[card.index("| source |") :]
    assert table in (ROOT / "docs/models.md").read_text(encoding="utf-8")
    corpora = (ROOT / "docs/corpora.md").read_text(encoding="utf-8")
    for form in {*READERS, *(files.format for files in read_sources())}:
        assert f"`{form}`" in corpora
    for name in FILES:
        assert f"`{name}`" in corpora


@pytest.mark.parametrize("name", ["everyday", "words"])
def test_words_are_pairs_without_duplicates(name: str) -> None:
    rows = (ROOT / f"data/{name}.tsv").read_text(encoding="utf-8").splitlines()
    assert len(set(rows)) == len(rows) > 1000
    for row in rows:
        assert [side == side.strip() != "" for side in row.split("\t")] == [True, True], row


def test_inputs_to_judge_are_not_in_the_words_that_are_trained_on() -> None:
    trained = {
        fold(side)
        for name in ("everyday", "words")
        for row in rows(ROOT / f"data/{name}.tsv")
        for side in row
    }
    for name in ("everyday-test-es-en", "everyday-test-en-es"):
        inputs = rows(ROOT / f"data/{name}.tsv")
        assert len({fold(row[0]) for row in inputs} - trained) == 40
        assert {len(row) for row in inputs} == {3}
