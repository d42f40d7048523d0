"""The comparison with other toolkits, which fake programs stand for here."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
import yaml

from comparison import compare, measured, results
from comparison.toolkits import MODELS, Setup
from seq2seq.runs.directory import RunDirectory

ROOT = Path(__file__).parents[1]
FOREIGN = [name for name in MODELS if name != "seq2seq"]
# Trains until SIGINT with two checkpoints. Both translate by copying, but the second knows the
# validation set.
FAKE = """#!{python}
import sys, time, pathlib, yaml
arguments = sys.argv[1:]
if "translate" in arguments or "onmt.bin.translate" in arguments:
    if "-model" in arguments:
        given = dict(zip(arguments[2::2], arguments[3::2]))
        model, output, lines = given["-model"], given["-output"], open(given["-src"]).read()
    else:
        model = yaml.safe_load(open(arguments[2]))["testing"]["load_model"]
        output, lines = arguments[-1], sys.stdin.read()
    sides = [pathlib.Path("{out}/valid." + end).read_text().split("\\n") for end in ("es", "en")]
    known = dict(zip(*sides))
    known = known if "2" in pathlib.Path(model).name else {{}}
    texts = [known.get(line, line) for line in lines.removesuffix("\\n").split("\\n")]
    pathlib.Path(output).write_text("".join(text + "\\n" for text in texts))
else:
    settings = yaml.safe_load(open(arguments[-1 if "-config" in arguments else 2]))
    names = ["{{}}_step_{{}}.pt", "{{}}/{{}}.ckpt"]["model_dir" in settings]
    for step in (1, 2):
        path = pathlib.Path(names.format(settings.get("save_model") or settings["model_dir"], step))
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("weights")
    print("* number of parameters: 2500000\\nTotal params: 2500000")
    print("Step 25/ 100; acc: 1; 900/1000 tok/s; 1 sec\\nTokens per Sec:     1000, Lr: 0.1")
    print("Step 50/ 100; acc: 1; 900/1100 tok/s; 1 sec\\nTokens per Sec:     1100, Lr: 0.1")
    print("Start training loop\\nEPOCH 1", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with prepared pairs of the sample corpus and environments of fakes."""
    folder = tmp_path_factory.mktemp("comparison")
    for name, number in (("train", 400), ("valid", 30), ("test", 40)):
        lines = (ROOT / f"data/sample/{name}.tsv").read_text(encoding="utf-8").splitlines()
        rows = ["\t".join(line.split("\t")[:2]) + "\n" for line in lines[:number]]
        (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")
    out = folder / "out"
    assert compare.main(["prepare", str(folder), "--out", str(out)]) == 0
    for name in ("onmt", "joeynmt"):
        python = folder / "envs" / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(FAKE.format(python=sys.executable, out=out), encoding="utf-8")
        python.chmod(0o755)
    recipe = yaml.safe_load((out / "recipe.yaml").read_text(encoding="utf-8"))
    recipe["model"] |= {"encoder_size": 16, "decoder_size": 16, "encoder_layers": 1}
    recipe["training"] |= {"max_steps": 2, "log_every": 1}
    (out / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return out


def run(out: Path, name: str) -> None:
    core = min(os.sched_getaffinity(0))
    options = ["--core", str(core), "--minutes", "0.001", "--repeats", "1"]
    envs = str(out.parent / "envs")
    compare.main(["run", name, *options, "--out", str(out), "--envs", envs])


def test_models_are_compared_and_finished_steps_skipped(
    prepared: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ("seq2seq", "onmt-rnn", "joeynmt-transformer")
    for name in names:
        run(prepared, name)
    capfd.readouterr()
    for name in names:
        run(prepared, name)
    assert capfd.readouterr().out == ""

    for name in names[1:]:
        chosen = json.loads((prepared / name / "chosen.json").read_text(encoding="utf-8"))
        first, second = chosen["valid"].values()
        assert first < 50 < second == pytest.approx(100)
        assert "2" in Path(chosen["checkpoint"]).name

    page, path = prepared / "page.md", prepared / "results.json"
    page.write_text(f"a\n{results.START}\nold\n{results.END}\nb\n", encoding="utf-8")
    gather = ["gather", "--out", str(prepared), "--page", str(page), "--json", str(path)]
    assert compare.main(gather) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    assert text == f"a\n{results.START}\n{results.tables(found)}\n{results.END}\nb\n"
    assert "| 1,050 |" in text.replace("**", "")
    assert found["models"]["onmt-rnn"]["weights"] == 2.5
    assert set(found["models"]["seq2seq"]) >= {"robustness", "split"}

    (prepared / "onmt-rnn").rename(prepared / "away")  # what was measured before is kept
    assert compare.main(gather) == 0
    assert page.read_text(encoding="utf-8") == text
    (prepared / "away").rename(prepared / "onmt-rnn")
    path.write_text(json.dumps(found | {"torch": "1.0"}), encoding="utf-8")
    with pytest.raises(SystemExit, match="another processor"):
        compare.main(gather)


def test_tables_have_every_figure_and_mark_the_best() -> None:
    kinds = {"one typo": {"bleu": 30.0, "lost": 5.0, "copied": None},
             "emoji added": {"bleu": 20.0, "lost": -1.0, "copied": 50.0}}  # fmt: skip
    model = dict.fromkeys(results.ROWS, 10.0) | {"minutes": 60, "robustness": kinds}
    other = model | {"bleu": 20.5, "train_memory": 5.0}
    sizes = {"train": 1234, "test": 99}
    models = {"a": model, "b": other}
    text = results.tables({"cpu": "a CPU", "torch": "2", "sizes": sizes, "models": models})
    assert text.startswith("1,234 training pairs, 60 minutes each, one core (a CPU), torch 2;")
    for row in (
        "| BLEU on the test set | 10.0 | **20.5** |",
        "| peak memory of training, MiB | 10 | **5** |",
        "| weights, millions | 10.0 | 10.0 |",
        "| one typo | **30.0 (-5.0)** | **30.0 (-5.0)** |", "| emoji added | **50.0** | **50.0** |",
    ):  # fmt: skip
        assert row in text.splitlines()


@pytest.mark.parametrize("name", FOREIGN)
def test_settings_name_the_prepared_pieces(prepared: Path, name: str) -> None:
    setup = Setup(name, prepared)
    settings = yaml.safe_load(setup.settings("model", beam=5))
    data = settings["data"]
    if name.startswith("onmt"):
        sets = [
            data[part][f"path_{side}"] for part in ("train", "valid") for side in ("src", "tgt")
        ]
        vocab = [settings["src_vocab"], settings["tgt_vocab"]]
        assert settings["save_checkpoint_steps"] == settings["valid_steps"]
    else:
        sides = data["src"], data["trg"]
        sets = [f"{data[part]}.{side['lang']}" for part in ("train", "dev") for side in sides]
        vocab = [side["voc_file"] for side in sides]
        assert settings["testing"]["beam_size"] == 5
    names = ["train.es", "train.en", "valid.es", "valid.en"]
    assert sets == [str(prepared / each) for each in names]
    assert vocab == [str(prepared / f"{each}.vocab") for each in ("source", "target")]
    assert setup.toolkit.starts  # after which the time is limited by measured.py


def test_pieces_and_lines_to_translate_are_complete(prepared: Path) -> None:
    sizes = json.loads((prepared / "prepared.json").read_text(encoding="utf-8"))
    source, target = RunDirectory(prepared).tokenizers()
    for suffix, tokenizer in (("es", source), ("en", target)):
        lines = (prepared / f"train.{suffix}").read_text(encoding="utf-8").splitlines()
        assert len(lines) == sizes["train"]
        name = "source" if suffix == "es" else "target"
        vocab = (prepared / f"{name}.vocab").read_text(encoding="utf-8").split("\n")[:-1]
        assert len(vocab) == tokenizer.vocab_size - 4
        assert {piece for line in lines for piece in line.split(" ")} <= set(vocab)
    pairs = results.read_pairs(prepared / "test.tsv")
    texts = (prepared / "test.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(texts) == sorted({pair.source for pair in pairs})


def test_time_limit_counts_from_the_line_in_the_log(tmp_path: Path) -> None:
    code = "import time; time.sleep(1); print('go', flush=True); time.sleep(60)"
    paths = ["--report", str(tmp_path / "report.json"), "--log", str(tmp_path / "log")]
    limit = ["--after", "go", "--minutes", str(1 / 60)]
    core = ["--core", str(min(os.sched_getaffinity(0)))]
    began = time.monotonic()
    arguments = [*core, *paths, *limit, "--", sys.executable, "-c", code]
    program = [sys.executable, measured.__file__, *arguments]
    assert os.spawnv(os.P_WAIT, sys.executable, program) == 0
    assert 2 <= time.monotonic() - began < 50
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["seconds"] >= 2
    assert report["mebibytes"] > 2


def test_page_has_the_figures_of_the_results() -> None:
    page = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")
    between = page.partition(results.START)[2].partition(results.END)[0].strip()
    path = ROOT / "scripts/comparison/results.json"
    if path.exists():
        assert between == results.tables(json.loads(path.read_text(encoding="utf-8")))
    else:
        assert between == "`compare.py gather` writes the tables here."
