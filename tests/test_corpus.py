"""Every reader, and what each error names: the place, and how to fix it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from seq2seq.config import CorpusConfig
from seq2seq.data import corpus
from seq2seq.data.corpus import MAX_LINE_BYTES, Line, Pair, parse_columns, read_corpus
from seq2seq.errors import DataError

TATOEBA = Path(__file__).parents[2] / "shared/data/tatoeba-es-en"


def read(**keys: Any) -> list[Pair]:
    return list(read_corpus(CorpusConfig.model_validate(keys)))


def write(path: Path, content: bytes | str) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def fails(**keys: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(**keys)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- tab-separated columns


def test_tsv_reads_two_columns_and_ignores_more(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Hola.\tHello.\nAdiós.\tGoodbye.\tmore\t\n")
    assert read(path=path) == [Pair("Hola.", "Hello."), Pair("Adiós.", "Goodbye.")]


def test_tsv_reads_the_columns_that_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "1\tHello.\t0-0\tHola.\n")
    pairs = read(path=path, source=3, target=1, alignment=2)
    assert pairs == [Pair("Hola.", "Hello.", alignment="0-0")]


def test_tsv_reads_references_after_the_target(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Hola.\tHello.\tHi.\t\tHey.\nSí.\tYes.\n")
    assert read(path=path, references=True) == [
        Pair("Hola.", "Hello.", ("Hi.", "Hey.")),
        Pair("Sí.", "Yes."),
    ]


def test_tsv_source_behind_the_target_is_no_reference(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Hello.\tHola.\tHi.\n")
    assert read(path=path, source=1, target=0, references=True) == [
        Pair("Hola.", "Hello.", ("Hi.",))
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_ends_of_lines_marks_and_gzip_change_nothing(
    tmp_path: Path, end: str, start: str, last: bool, name: str
) -> None:
    text = start + end.join(("Hola.\tHello.", "Sí.\tYes.")) + (end if last else "")
    raw = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    assert read(path=write(tmp_path / name, raw)) == [Pair("Hola.", "Hello."), Pair("Sí.", "Yes.")]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\x0bd\x0ce\x1cf\x85g\rh"
    path = write(tmp_path / "a.tsv", f"{odd}\t{odd}\n")
    assert read(path=path) == [Pair(odd, odd)]


def test_blank_lines_hold_no_pair_but_empty_columns_do(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "\nHola.\tHello.\n\r\n\t\n\n")
    assert read(path=path) == [Pair("Hola.", "Hello."), Pair("", "")]


def test_long_lines_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", f"{'a' * 100_000}\t{'ñ' * 100_000}\n")
    assert read(path=path) == [Pair("a" * 100_000, "ñ" * 100_000)]


def test_endless_lines_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv.gz", gzip.compress(b"a" * (MAX_LINE_BYTES + 1), 1))
    assert fails(path=path).startswith(f"{path}:1: more than {MAX_LINE_BYTES} bytes")


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_compressed_bombs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, pack: Any
) -> None:
    monkeypatch.setattr(corpus, "FREE_BYTES", 50_000)
    honest = "".join(f"Hola {n}.\tHello {n}.\n" for n in range(4_000)).encode()
    path = write(tmp_path / f"honest.tsv.{suffix}", pack.compress(honest))
    assert len(read(path=path)) == 4_000
    for content in (b"Hola.\tHello.\n" * 20_000, b"\n" * 200_000):
        path = write(tmp_path / f"bomb.tsv.{suffix}", pack.compress(content))
        assert "bomb.tsv" in fails(path=path)
        assert "unpacks to more than 100 times its size" in fails(path=path)


def test_manythings_has_english_first(tmp_path: Path) -> None:
    path = write(tmp_path / "spa.txt", "Go.\tVe.\nGo.\tVete.\tCC-BY 2.0 (France) #1 & #2\n")
    assert read(format="manythings", path=path) == [
        Pair("Ve.", "Go."),
        Pair("Vete.", "Go."),
    ]


def test_ragged_rows_are_named_with_their_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "Hola.\tHello.\nSí. Yes.\n")
    assert fails(path=path).startswith(f"{path}:2: 1 column, but 'target: 1' needs 2, as")
    for key, last in (("source", 2), ("target", 7), ("alignment", 2)):
        words = f"{path}:1: 2 columns, but '{key}: {last}' needs {last + 1}, as the first is"
        assert fails(path=path, **{key: last}).startswith(words)


# --- files that cannot be read


def test_missing_file_and_directory(tmp_path: Path) -> None:
    assert "no such file" in fails(path=str(tmp_path / "a.tsv"))
    assert "no such file" in fails(path=str(tmp_path / "a.tsv.gz"))
    assert "a directory" in fails(path=str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"\n\r\n\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.tsv.gz"])
def test_empty_files(tmp_path: Path, content: bytes, name: str) -> None:
    path = write(tmp_path / name, gzip.compress(content) if name.endswith(".gz") else content)
    keys = {"format": "jsonl", "source": "es", "target": "en"} if "json" in name else {}
    message = fails(path=path, **keys)
    assert "an empty file" in message if not content else "blank lines only" in message


def test_nul_bytes_are_named_with_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"Hola.\tHello.\nS\0\tYes.\n")
    assert fails(path=path).startswith(f"{path}:2: a NUL byte at byte 14")
    path = write(tmp_path / "b.tsv", "Hola.\tHello.\n".encode("utf-16-be"))
    assert "binary data or UTF-16" in fails(path=path)


def test_other_encodings_are_named_with_their_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"\xef\xbb\xbfHola.\tHello.\n" + "Sí.\tYes.".encode("latin-1"))
    assert fails(path=path).startswith(f"{path}:2: not UTF-8: byte 0xed at byte 17; convert")
    path = write(tmp_path / "b.tsv", b"\xef\xbb\xbf\xff\tHello.\n")
    assert fails(path=path).startswith(f"{path}:1: not UTF-8: byte 0xff at byte 3")


def test_encoded_surrogates_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"\xed\xa0\x80\tHello.\n")
    assert "not UTF-8" in fails(path=path)


def test_damaged_gzip(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"Hola {n}.\tHello {n}.\n" for n in range(3000)).encode())
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 0xFF
    for content in (whole[:-30], bytes(broken), b"Hola.\tHello.\n", whole + b"tail"):
        assert "damaged compressed data" in fails(path=write(tmp_path / "a.tsv.gz", content))


# --- aligned files


def aligned(tmp_path: Path, source: str, target: str) -> dict[str, str]:
    return {
        "format": "aligned",
        "source_path": write(tmp_path / "a.es", source),
        "target_path": write(tmp_path / "a.en", target),
    }


def test_aligned_keeps_empty_lines(tmp_path: Path) -> None:
    keys = aligned(tmp_path, "Hola.\n\nSí.\tya\n", "Hello.\r\n\r\nYes.")
    assert read(**keys) == [Pair("Hola.", "Hello."), Pair("", ""), Pair("Sí.\tya", "Yes.")]


def test_aligned_reads_gzip(tmp_path: Path) -> None:
    keys = aligned(tmp_path, "Hola.\n", "")
    keys["target_path"] = write(tmp_path / "a.en.gz", gzip.compress(b"Hello.\n"))
    assert read(**keys) == [Pair("Hola.", "Hello.")]


@pytest.mark.parametrize(("sources", "targets"), [(3, 1), (1, 4)])
def test_aligned_counts_unequal_lines(tmp_path: Path, sources: int, targets: int) -> None:
    message = fails(**aligned(tmp_path, "a\n" * sources, "b\n" * targets))
    assert f"a.es has {sources} line" in message
    assert f"a.en has {targets} line" in message
    assert "1 lines" not in message


def test_aligned_names_the_empty_file(tmp_path: Path) -> None:
    assert "a.en: an empty file" in fails(**aligned(tmp_path, "a\n", ""))


# --- JSON lines


def jsonl(tmp_path: Path, content: str | bytes, **keys: Any) -> dict[str, Any]:
    path = write(tmp_path / "a.jsonl", content)
    return {"format": "jsonl", "path": path, "source": "es", "target": "en"} | keys


def test_jsonl_reads_nested_fields(tmp_path: Path) -> None:
    row = {"translation": {"es": "Sí.\u2028", "en": "Yes."}, "links": "0-0"}
    keys = jsonl(tmp_path, f"\n{json.dumps(row)}\r\n  \n", alignment="links")
    keys |= {"source": "translation.es", "target": "translation.en"}
    assert read(**keys) == [Pair("Sí.\u2028", "Yes.", alignment="0-0")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("Hola.\tHello.", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"es": ' + "1" * 5000 + "}", "not JSON"),
        ("[1]", "a JSON array, not an object"),
        ('"text"', "a JSON string, not an object"),
        ("true", "a JSON boolean, not an object"),
        ("null", "a JSON null, not an object"),
        ("NaN", "a JSON number, not an object"),
        ('{"en": "Hello.", "id": 1}', "no field 'es'; fields: en, id"),
        ("{}", "no field 'es'; fields: none"),
        ('{"es": 3, "en": "Hello."}', "field 'es' is of type number, not a string"),
        ('{"es": null, "en": "Hello."}', "field 'es' is of type null, not a string"),
        ('{"es": "a", "en": ["Hello."]}', "field 'en' is of type array, not a string"),
        ('{"es": "a\\ud800", "en": "b"}', "field 'es' has half a surrogate pair at character 1"),
    ],
)
def test_jsonl_errors_name_the_line(tmp_path: Path, line: str, message: str) -> None:
    keys = jsonl(tmp_path, '{"es": "Hola.", "en": "Hello."}\n' + line + "\n")
    assert fails(**keys).startswith(f"{keys['path']}:2: {message}")


def test_jsonl_names_the_depth_of_a_missing_field(tmp_path: Path) -> None:
    keys = jsonl(tmp_path, '{"t": {"fr": "Oui."}, "en": "Yes."}', source="t.es")
    assert "no field 't.es'; fields of t: fr" in fails(**keys)
    keys = jsonl(tmp_path, '{"t": "Oui.", "en": "Yes."}', source="t.es")
    assert "no field 't.es'; fields of t: none" in fails(**keys)


# --- comma-separated values


def csv_file(tmp_path: Path, content: str | bytes, **keys: Any) -> dict[str, Any]:
    return {"format": "csv", "path": write(tmp_path / "a.csv", content)} | keys


def test_csv_reads_quotes_line_ends_and_commas(tmp_path: Path) -> None:
    text = (
        "\ufeffid,target, source\r\n"
        '1,"He said ""yes"", twice.","Dijo ""sí"",\ndos veces."\r\n'
        "\r\n"
        "2,Hi.,Hola.\r\n"
        "3,,\r\n"
    )
    pairs = [
        Pair('Dijo "sí",\ndos veces.', 'He said "yes", twice.'),
        Pair("Hola.", "Hi."),
        Pair("", ""),
    ]
    assert read(**csv_file(tmp_path, text)) == pairs
    packed = csv_file(tmp_path, "")
    packed["path"] = write(tmp_path / "a.csv.gz", gzip.compress(text.encode()))
    assert read(**packed) == pairs


def test_csv_reads_the_columns_that_are_named_or_numbered(tmp_path: Path) -> None:
    keys = csv_file(tmp_path, "en,links,es\nHello.,0-0,Hola.\n")
    pair = Pair("Hola.", "Hello.", alignment="0-0")
    assert read(**keys, source="es", target="en", alignment="links") == [pair]
    assert read(**keys, source=2, target=0, alignment=1) == [pair]


HEADER = "source,target\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("es,en\na,b\n", ":1: no column 'source' in the header (es, en); set 'source' to the name"),
        ("source,x,x\na,b,c\n", ":1: no column 'target' in the header"),
        ("source,target,target\na,b,c\n", ":1: 2 columns 'target' in the header"),
        (HEADER + 'a,"b" c\n', ":2: not CSV (',' expected after '\"'); put text with commas"),
        (HEADER + 'a,b\nc,"d\n\ne\n', ":3: not CSV (unexpected end of data)"),
        (HEADER + 'a,"' + "b" * 200_000 + '"\n', ":2: not CSV (field larger than field limit"),
        (HEADER + "Sí, claro.,Yes.\n", ":2: 3 columns, but the header has 2; put text with commas"),
        (HEADER + "a;b\n", ":2: 1 column, but the header has 2"),
        (HEADER + "\n", ":2: blank lines only; rows below the header are expected"),
        (HEADER, ":1: blank lines only; rows below the header are expected"),
        ("\n\n", ": blank lines only; a header and rows are expected"),
        ("", ": an empty file"),
    ],
)
def test_csv_errors_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    keys = csv_file(tmp_path, text)
    assert fails(**keys).startswith(f"{keys['path']}{message}")


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_command_in_the_message_about_other_separators_converts(
    tmp_path: Path, mark: str, name: str
) -> None:
    keys = csv_file(tmp_path, f'source{mark}target\n"a, b"{mark}c\n')
    message = fails(**keys)
    assert message.startswith(f"{keys['path']}:1: columns separated by {name}, and commas")
    (tmp_path / "a.csv").rename(tmp_path / "OLD.csv")
    subprocess.run(message.partition("convert it: ")[2], shell=True, check=True, cwd=tmp_path)
    assert read(format="csv", path=str(tmp_path / "NEW.csv")) == [Pair("a, b", "c")]


def test_csv_column_that_the_header_lacks(tmp_path: Path) -> None:
    keys = csv_file(tmp_path, HEADER + "a,b\n", alignment=2)
    assert "no column 2 in the header (source, target); set 'alignment'" in fails(**keys)


# --- all malformed lines in one error


def test_first_ten_malformed_lines_are_named_and_all_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tb\n" + "c\nd\te\n" * 14)
    assert fails(path=path) == (
        f"{path}:2: 1 column, but 'target: 1' needs 2, as the first is number 0; separate columns "
        "by tabs, or change source, target or alignment; 14 lines are malformed: 2, 4, 6, 8, 10, "
        "12, 14, 16, 18, 20, ..."
    )


def test_malformed_lines_are_named_in_every_format(tmp_path: Path) -> None:
    lines = ["{}", '{"es": "a", "en": "b"}', "[1]", "[2]", "{}"]
    keys = jsonl(tmp_path, "\n".join(lines))
    assert fails(**keys) == (
        f"{keys['path']}:1: no field 'es'; fields: none; 4 lines are malformed: 1, 3 (a JSON "
        "array, not an object), 4, 5 (no field 'es')"
    )
    keys = csv_file(tmp_path, HEADER + 'a\nb,c\n"d" e,f\ng,h,i\n')
    assert fails(**keys).endswith(
        "; 3 lines are malformed: 2, 4 (not CSV (',' expected after '\"')), "
        "5 (3 columns, but the header has 2)"
    )
    path = write(tmp_path / "a.tsv", "sí\ta\nb\tc\nd\tñ\n".encode("latin-1"))
    assert fails(path=path).endswith(
        "; 2 lines are malformed: 1, 3 (not UTF-8: byte 0xf1 at byte 11)"
    )


# --- properties

FIELD = st.text(st.characters(exclude_characters="\t\n\r\0", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(FIELD, FIELD), min_size=1))
def test_any_text_survives_tsv(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tsv"
    write(path, "\ufeff" + "".join(f"{source}\t{target}\n" for source, target in rows))
    assert read(path=str(path)) == [Pair(source, target) for source, target in rows]


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), FIELD), min_size=1))
def test_any_text_survives_jsonl(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    lines = [json.dumps({"es": es, "en": en}, ensure_ascii="\n" in es) for es, en in rows]
    write(path, "\r\n".join(lines))
    pairs = read(format="jsonl", path=str(path), source="es", target="en")
    assert pairs == [Pair(es, en) for es, en in rows]


ROWS = st.lists(
    st.binary(max_size=12)
    | st.text(max_size=8).map(str.encode)
    | st.sampled_from(
        [
            b"source,target",
            b'a,"b',
            b'c"',
            b"a\tb",
            b'{"es": "a", "en": "b"}',
            b'{"es": {}, "en": NaN}',
            b"[1]",
            b"a\tb\tc\t0-0",
            b"",
        ]
    ),
    max_size=6,
)
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip


@examples(150)
@given(
    ROWS.map(b"\n".join),
    st.sampled_from(["tsv", "manythings", "csv", "jsonl", "aligned"]),
    st.sampled_from(sorted(PACKED)),
    st.none() | st.integers(0, 200),
)
def test_any_bytes_are_pairs_or_an_error(
    tmp_path_factory: pytest.TempPathFactory,
    content: bytes,
    form: str,
    suffix: str,
    cut: int | None,
) -> None:
    """What is read is text, and an error names the file, once, and its line where it has one."""
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(PACKED[suffix](content)[:cut])
    keys: dict[str, Any] = {"format": form, "path": str(path)}
    if form == "jsonl":
        keys |= {"source": "es", "target": "en"}
    elif form == "aligned":
        keys = {"format": form, "source_path": str(path), "target_path": str(path)}
    elif form == "tsv":
        keys |= {"references": True}
    try:
        pairs = read(**keys)
    except DataError as error:
        message = str(error)
    else:
        lines = content.removesuffix(b"\n").count(b"\n") + 1
        assert len(pairs) <= lines
        for pair in pairs:
            "".join((pair.source, pair.target, *pair.references)).encode()
        return
    assert re.match(rf"{re.escape(str(path))}(:\d+)?: .", message)
    assert message.isprintable()


def test_memory_does_not_grow_with_the_corpus() -> None:
    lines = (Line("x:1", f"Hola {n}.\tHello {n}.") for n in range(20_000))
    tracemalloc.start()
    for _ in parse_columns(lines, CorpusConfig(path="x")):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="the shared corpus is not here")
def test_real_corpus() -> None:
    train = sum(1 for _ in read_corpus(CorpusConfig(path=str(TATOEBA / "train.tsv"))))
    assert train == 111_771
    test = read(path=str(TATOEBA / "test.tsv"), references=True)
    assert len(test) == 2000
    assert sum(bool(pair.references) for pair in test) > 50
