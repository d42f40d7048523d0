"""README.md and docs/: commands parse, recipes are valid, links resolve, Python code runs."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
import yaml

import study
from seq2seq.cli import main, parse
from seq2seq.config import load_config

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")
# The least number of commands on each page, so that a page whose layout changes is noticed.
NUMBERS = {"README": 35, "attention": 15, "distillation": 9, "experiments": 14, "export": 4,
           "finetuning": 9, "measuring": 5, "models": 8, "recipe": 5, "scaling": 9, "serving": 1,
           "speed": 2, "study": 9, "making": 5}  # fmt: skip


def commands(page: Path) -> list[str]:
    """Return the commands in the blocks of a page, and in the tables of two pages."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(
        r"^ *(?:\$ +)?(?:(?:cut|echo) .*\| |torchrun .*-m )?(?:\.venv/bin/)?"
        r"((?:seq2seq [a-z]+|python scripts/study\.py) .*)$",
        text, re.MULTILINE,
    )  # fmt: skip
    tables = re.findall(r"^\|.*", text, re.MULTILINE) if page.stem in ("README", "making") else []
    return blocks + re.findall(r"`((?:seq2seq|python scripts/study\.py) [^`]+)`", "\n".join(tables))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_parse(page: Path) -> None:
    found = commands(page)
    assert len(found) >= NUMBERS.get(page.stem, 0)
    for line in found:
        line = re.split(r" [<|>] | +#", line)[0].replace("$seed", "1").replace("$run", "1")
        words = shlex.split(line)
        if words[0] == "python":
            assert parse(words[2:], study.make_parser()).action
            continue
        parsed = parse(words[1:])
        assert parsed.action
        if words[1] == "train" and (ROOT / parsed.config).is_file():
            load_config(ROOT / parsed.config, parsed.overrides)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    ):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def anchors(page: Path) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_readme_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    names = re.findall(r"^    ([a-z]+)", capsys.readouterr().out, re.MULTILINE)
    assert len(names) >= 14
    named = (line.split() for line in commands(PAGES[0]))
    assert set(names) == {words[1] for words in named if words[0] == "seq2seq"}


def test_formats_in_readme_are_valid(tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(data:\n.*?)```", README, re.DOTALL)
    recipe = tmp_path / "formats.yaml"
    recipe.write_text(f"run_dir: run\n{block}  valid: {{path: valid.tsv}}\n", encoding="utf-8")
    assert len(load_config(recipe).data.train) == len(yaml.safe_load(block)["data"]["train"])


def test_multi30k_is_the_recipe_of_the_readme() -> None:
    [block] = re.findall(r"```yaml\n(run_dir:.*?)```", README, re.DOTALL)
    recipe = yaml.safe_load(block)
    recipe["run_dir"] = "runs/multi30k"
    recipe["data"] |= {
        "source_language": "de",
        "train": [{"path": "data/multi30k/train.tsv"}],
        "valid": {"path": "data/multi30k/valid.tsv"},
    }
    recipe["training"]["max_minutes"] = 20
    text = (ROOT / "configs/multi30k.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == recipe


def test_own_data_in_readme_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [recipe] = re.findall(r"```yaml\n(run_dir:.*?)```", README, re.DOTALL)
    (tmp_path / "mine.yaml").write_text(recipe, encoding="utf-8")
    lines = (ROOT / "data/sample/train.tsv").read_text(encoding="utf-8").splitlines()
    pairs = ["\t".join(line.split("\t")[:2]) + "\n" for line in lines[:600]]
    (tmp_path / "valid.tsv").write_text("".join(pairs[:200]), encoding="utf-8")
    (tmp_path / "train.tsv").write_text("".join(pairs[200:]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    short = ["training.max_steps=2", "training.threads=1", "data.cache=null", "data.processes=1"]
    small = ["model.encoder_size=16", "model.embedding_size=16", "model.decoder_size=16"]
    assert main(["train", "mine.yaml", *short, *small]) == 0
    (tmp_path / "new.txt").write_text("No lo veo.\n", encoding="utf-8")
    assert main(["translate", "runs/mine", "-i", "new.txt", "-o", "out.txt"]) == 0
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").count("\n") == 1


def test_python_in_readme_runs() -> None:
    [block] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    assert printed.getvalue().startswith("Where is the dog? ")


def test_first_example_of_readme_prints_what_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [(text, printed)] = re.findall(
        r"^echo '(.*)' \| .*translate es-en\n```\n\n +(.*)", README, re.M
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))
    assert main(["translate", "es-en"]) == 0
    assert capsys.readouterr().out == f"{printed}\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    suffixes = "py|sh|yaml|md|ipynb|txt"
    named = re.findall(
        rf"`((?:seq2seq|tests|scripts|configs|docs)/[\w/.-]+\.(?:{suffixes}))`", text
    )
    assert [path for path in named if "NAME" not in path and not (ROOT / path).exists()] == []
