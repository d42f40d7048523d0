"""Recipes: types, bounds, overrides, YAML, error messages, and writing them back.

The property tests change valid recipes at random; each must parse and round-trip, or raise a
ConfigError of one line.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from properties import examples
from pydantic import ValidationError

from seq2seq.config import (
    Config,
    InferenceConfig,
    ModelConfig,
    TrainingConfig,
    changed_keys,
    dump_config,
    load_config,
    parse_config,
)
from seq2seq.errors import ConfigError

BASE = """
run_dir: runs/x
data:
  train: [{path: train.tsv}]
  valid: {path: valid.tsv}
"""
CONFIGS = Path(__file__).parents[1] / "configs"


def parse(*overrides: str, text: str = BASE) -> Config:
    return parse_config(text, overrides, origin="recipe.yaml")


def error(*overrides: str, text: str = BASE) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(*overrides, text=text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def values(annotation: Any, metadata: list[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a key, within its bounds."""
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is tuple:
        return st.tuples(st.floats(0, 0.99), st.floats(0, 0.99))
    options = get_args(annotation) or (annotation,)
    if type(None) in options:
        inner = next(option for option in options if option is not type(None))
        inner_metadata = list(getattr(inner, "__metadata__", ()))
        limits = [limit for m in inner_metadata for limit in getattr(m, "metadata", [m])]
        return st.none() | values((get_args(inner) or (inner,))[0], limits)
    low = next((m.ge for m in metadata if hasattr(m, "ge")), None)
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(low or 0, 10_000)
    if annotation is float:
        return st.floats(1e-12, 0.99, allow_nan=False)
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def sections(section: type[Any], skip: tuple[str, ...] = ()) -> st.SearchStrategy[dict[str, Any]]:
    leaves = {
        name: values(field.annotation, field.metadata)
        for name, field in section.model_fields.items()
        if name not in ("attention", "schedule", *skip)
    }
    return st.fixed_dictionaries({}, optional=leaves)


@examples(60)
@given(
    run_dir=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    model=sections(ModelConfig),
    training=sections(TrainingConfig),
    inference=sections(InferenceConfig, ("max_source_length", "max_length_offset")),
)
def test_dump_and_parse_round_trip(
    run_dir: str, model: dict[str, Any], training: dict[str, Any], inference: dict[str, Any]
) -> None:
    raw = {
        "run_dir": run_dir,
        "data": {"train": ({"path": run_dir},), "valid": {"path": "v"}},
        "model": model,
        "training": training,
        "inference": inference,
    }
    try:
        config = Config.model_validate(raw)
    except ValidationError:
        assume(False)
    assert parse_config(dump_config(config)) == config
    assert changed_keys(config, config) == {}


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
    | st.sampled_from([10**30, -1, 0, 2**31, 1e308, "auto", "\x85", "a\0b", b"bytes"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip
WHOLE = dump_config(parse_config(BASE))


def keys_of(value: Any, prefix: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    below = [(f"{prefix}{key}", item) for key, item in items]
    found = [key for key, _ in below]
    return found + [
        key
        for name, item in below
        if isinstance(item, dict | list)
        for key in keys_of(item, f"{name}.")
    ]


KEYS = keys_of(yaml.safe_load(WHOLE))


def parsed_or_refused(text: str, *overrides: str) -> None:
    """Parse; check that a recipe round-trips, or that a ConfigError has one line."""
    try:
        config = parse_config(text, overrides, origin="recipe.yaml")
    except ConfigError as error:
        message = str(error)
    else:
        assert parse_config(dump_config(config)) == config
        return
    assert message.startswith(("recipe.yaml: ", "override '"))
    assert message.isprintable()


@examples(40)
@given(
    st.lists(
        st.tuples(st.sampled_from(KEYS), ODD, st.sampled_from(["set", "delete", "rename"])),
        max_size=3,
    )
)
def test_odd_values_parse_or_raise(changes: list[tuple[str, Any, str]]) -> None:
    raw = yaml.safe_load(WHOLE)
    for key, value, how in changes:
        *parents, name = key.split(".")
        node = raw
        with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
            for parent in parents:
                node = node[int(parent) if isinstance(node, list) else parent]
            place = int(name) if isinstance(node, list) else name
            if how == "set":
                node[place] = value
            elif how == "delete":
                del node[place]
            else:
                node[str(value)] = node.pop(place)
    parsed_or_refused(yaml.safe_dump(raw, allow_unicode=True))


FRAGMENTS = (
    ":", "- ", "\n", "*a", "&a ", "!!bool ", "[", "}", "<<: ", "9" * 30, "\t", "? ", "%", "...",
)  # fmt: skip
EDITS = st.tuples(
    st.integers(0, len(WHOLE)), st.integers(0, 8), st.text(max_size=3) | st.sampled_from(FRAGMENTS)
)


@examples(40)
@given(st.lists(EDITS, max_size=6))
def test_damaged_text_parses_or_raises(changes: list[tuple[int, int, str]]) -> None:
    text = WHOLE
    for start, removed, added in changes:
        text = text[:start] + added + text[start + removed :]
    parsed_or_refused(text)


@examples(100)
@given(
    st.sampled_from(KEYS) | st.text(max_size=12),
    st.text(max_size=8) | ODD.map(lambda value: yaml.safe_dump(value, default_flow_style=True)),
)
def test_any_override_parses_or_raises(key: str, value: str) -> None:
    parsed_or_refused(BASE, f"{key}={value}", f"{key}.x={value}")


@examples(30)
@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"any\.yaml: "):
        load_config(path)


def test_line_ends_in_text_round_trip() -> None:
    for text in ("\x85", "a\u2028b", "\u2029", "a\nb", "\ufeff", "\t a", "ñ" * 200, "a  b " * 60):
        config = parse_config(BASE).model_copy(update={"run_dir": text})
        assert parse_config(dump_config(config)).run_dir == text


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_recipes_in_configs_are_valid(path: Path) -> None:
    config = load_config(path)
    assert parse_config(dump_config(config)) == config


@pytest.mark.parametrize("text", ["yes", "no", "1e-3", "010", "2024-01-01", "~", "null", "1_0", ""])
def test_text_that_looks_like_another_type_round_trips(text: str) -> None:
    config = Config.model_validate(
        {"run_dir": text, "data": {"train": ({"path": "t"},), "valid": {"path": "v"}}}
    )
    assert parse_config(dump_config(config)).run_dir == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-3", 1e-3), ("1E-3", 1e-3), ("1e+1", 10.0), ("5.e-1", 0.5), (".5", 0.5), ("2", 2.0)],
)
def test_spellings_of_floats(text: str, value: float) -> None:
    assert parse(f"training.learning_rate={text}").training.learning_rate == value
    in_file = BASE + f"training: {{learning_rate: {text}}}\n"
    found = parse(text=in_file).training.learning_rate
    assert found == value
    assert isinstance(found, float)


def test_yaml_1_1_words_are_text() -> None:
    assert parse("data.source_language=no").data.source_language == "no"
    assert parse("run_dir=2024-01-01").run_dir == "2024-01-01"


def test_overrides_set_values_list_entries_and_sections() -> None:
    config = parse(
        "training.betas.0=0.8",
        "training.clip_norm=null",
        "data.train.0.path=a.tsv",
        "data.train.1.path=b.tsv",
        "data.test.path=c.tsv",
        "model.attention.score=concat",
        "training.seed=1",
        "training.seed=2",
    )
    assert config.training.betas == (0.8, 0.999)
    assert config.training.clip_norm is None
    assert [corpus.path for corpus in config.data.train] == ["a.tsv", "b.tsv"]
    assert config.data.test is not None
    assert config.data.test.path == "c.tsv"
    assert config.model.attention.score == "concat"
    assert config.training.seed == 2


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.lerning_rate=1", "training.lerning_rate: unknown key; did you mean learning_ra"),
        ("trainin.seed=1", "trainin: unknown key; did you mean training?"),
        ("training.xyz=1", "training.xyz: unknown key; known keys: seed, max_steps"),
        ("training.learning_rate=fast", 'learning_rate: expected a number, found "fast"'),
        ("training.learning_rate=.nan", "learning_rate: expected a finite number, found NaN"),
        ("training.learning_rate=0", "learning_rate: expected more than 0"),
        ("training.max_steps=1.5", "training.max_steps: expected an integer, found 1.5"),
        ("training.max_steps=true", "training.max_steps: expected an integer, found true"),
        ("training.max_steps=0", "training.max_steps: expected 1 or more, found 0"),
        ("training.tensorboard=yes", 'tensorboard: expected true or false, found "yes"'),
        (
            "training.betas=[0.9,0.9,0.9]",
            "training.betas: expected a list of 2 numbers, no more than 2, found [0.9, 0.9, 0.9]",
        ),
        ("training.betas=[0.9]", "training.betas.1: missing required key"),
        ("training=null", "training: expected a section (key: value), found null"),
        ("model.style=bahdanu", 'found "bahdanu"; did you mean bahdanau?'),
        ("model.dropout=1", "model.dropout: expected less than 1"),
        ("data.tokenizer.character_coverage=0.9", "expected 0.98 or more, found 0.9"),
        ("training.validation_beam=10001", "validation_beam: expected 10000 or less, found 10001"),
        ("data.train=[]", "data.train: expected a list of sections with at least one entry"),
        ("data.train=x", 'data.train: expected a list of sections, found "x"'),
        ("data.train.0.format=jsonl", "data.train.0: format jsonl requires the key 'source'"),
        ("data.train.0.source_path=x", "data.train.0: format tsv does not use 'source_path'"),
        ("data.valid.source=-1", "data.valid.source: expected 0 or more, found -1"),
        (
            "data.valid.source=1.5",
            "data.valid.source: expected an integer or text or null, found 1.5",
        ),
        ("run_dir=", "run_dir: expected text, found null"),
    ],
)
def test_invalid_value_is_reported_once(override: str, words: str) -> None:
    message = error(override)
    assert message.startswith("recipe.yaml: ")
    assert words in message
    assert message.endswith("(given as an override)") or "data.train.0: format" in message
    assert ";" not in message.replace("; did you mean", "").replace("; known", "").replace(
        "; remove it", ""
    )


def test_too_many_corpora() -> None:
    found = error(f"data.train=[{'{path: a.tsv}, ' * 257}]")
    assert found.startswith(
        "recipe.yaml: data.train: expected a list of sections, no more than 256"
    )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("a", "expected section.key=value"),
        ("=1", "expected section.key=value"),
        ("training..seed=1", "expected section.key=value"),
        ("training.seed=[", "not valid YAML"),
        ("run_dir.x=1", "'runs/x' has no key 'x'"),
        ("data.train.7.path=z", "a list entry from 0 to 1, found '7'"),
        ("data.train.path=z", "a list entry from 0 to 1, found 'path'"),
        ("training.seed=*a", "not valid YAML"),
    ],
)
def test_invalid_override_is_quoted(override: str, words: str) -> None:
    assert words in error(override)
    assert override in error(override)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing"),
        ("- a", "found a list"),
        ("just text", "found 'just text'"),
        ("a: [1", "line 2, column 1"),
        (
            "a: ñ\nb:\n\tc: 1",
            "not valid YAML: line 3, column 1: a tab where YAML expects spaces; replace it by",
        ),
        (
            "a: 😀\n \tb: 1",
            "not valid YAML: line 2, column 4: a tab where YAML expects spaces; replace it by",
        ),
        ("a: 1 b: {c: 2}", "line 1, column 7: no key can be here; write one 'key: value' on each"),
        ("a: 1\n  b: 2", "line 2, column 4: no key can be here; write one 'key: value' on each"),
        ("run_dir: a\nrun_dir: b", "line 2, column 1: duplicate key 'run_dir'"),
        (BASE + "training: {seed: 1, seed: 2}", "duplicate key 'seed'"),
        (BASE + "training: {seed: 1,\n\tseed: 2}", "duplicate key 'seed'"),
        ("run_dir: &a [*a]", "an alias (*) refers to itself"),
        ("[" * 5000, "nested too deeply"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("a\0b", "special characters are not allowed"),
        ("? [a]\n: 1", "unhashable key"),
        ("run_dir: x", "data: missing required key"),
        (BASE + "model: {attention: {score: dot}, encoder_size: 3}", "attention.key_size=512"),
        (BASE + "model: {joint_embeddings: true}", "requires data.tokenizer.joint=true"),
        (
            BASE.replace("valid.tsv", "v, format: csv, references: true"),
            "data.valid: format csv does not use 'references'; remove it",
        ),
        (
            BASE.replace("valid.tsv", "v.tsv, source: 1"),
            "data.valid: source and target are both 1; name two columns",
        ),
        (
            BASE.replace("valid.tsv", "v, format: csv, alignment: source"),
            "data.valid: source and alignment are both 'source'; name two columns",
        ),
        (
            BASE + "training: {schedule: {warmup_steps: 20, decay_steps: 10}}",
            "schedule.decay_steps is less than schedule.warmup_steps; raise it",
        ),
        (
            BASE + "model: {attention: {score: none}}\ninference: {coverage_penalty: 0.2}",
            "model.attention.score none has no weights; remove inference.coverage_penalty",
        ),
    ],
)
def test_invalid_recipe_is_refused(text: str, words: str) -> None:
    message = error(text=text)
    assert message.startswith("recipe.yaml: ")
    assert words in message


def test_all_problems_are_reported_in_one_line() -> None:
    message = error(text="data: {train: [{path: 3, x: 4}], tokenizer: {joint: 1}}")
    for words in (
        "run_dir: missing",
        "train.0.path: exp",
        "train.0.x: unk",
        "tokenizer.joint: exp",
    ):
        assert message.count(words) == 1
    assert "data.train:" not in message


def test_merge_keys_and_underscores_in_numbers() -> None:
    text = BASE.replace("valid: {path: valid.tsv}", "valid: {<<: &v {path: a}, path: b}")
    assert parse("training.max_steps=10_000", text=text).training.max_steps == 10_000
    assert parse(text=text).data.valid.path == "b"


def test_unreadable_files(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, words in (
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "cannot be read"),
        (binary, "not UTF-8 text (byte 0xff at offset 0)"),
    ):
        with pytest.raises(ConfigError, match=r".") as caught:
            load_config(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert words in str(caught.value)


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_text(BASE, encoding="utf-8-sig")
    assert load_config(path).run_dir == "runs/x"


def test_recipe_is_immutable() -> None:
    with pytest.raises(ValidationError):
        parse().training.seed = 3  # type: ignore[misc]


def test_changed_keys_are_dotted() -> None:
    old = parse()
    new = parse("training.seed=5", "data.test.path=t", "data.train.1.path=u", "training.betas.1=0")
    changes = changed_keys(old, new)
    assert changes["training.seed"] == (1, 5)
    assert changes["training.betas.1"] == (0.999, 0.0)
    assert changes["data.test.path"] == (None, "t")
    assert changes["data.train.1.path"] == (None, "u")
