from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
from conftest import ToyCorpus, toy_pairs

import seq2seq
from seq2seq import cli
from seq2seq.config import AugmentationConfig

SEQ2SEQ = [sys.executable, "-m", "seq2seq"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*arguments: object) -> int:
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("gato come pan\n\nperro ve agua\n")
    return path


def test_public_names_are_imported_lazily() -> None:
    code = (
        "import sys, seq2seq; assert 'torch' not in sys.modules and 'yaml' not in sys.modules\n"
        "names = {'Glossary', 'Translator', 'train', 'evaluate', 'load_config'}\n"
        "assert names < set(dir(seq2seq))\n"
        "assert seq2seq.load_config.__module__ == 'seq2seq.config.loading'\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert seq2seq.Translator.__name__ == "Translator"
    assert seq2seq.Glossary({"coche": "car"}).terms == {"coche": "car"}
    assert callable(seq2seq.train)
    assert callable(seq2seq.evaluate)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = seq2seq.nothing


def test_version_matches_package(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert run("--version") == 0
    assert capsys.readouterr().out == f"seq2seq {project['project']['version']}\n"


@pytest.mark.parametrize(
    "command",
    [
        ["train"],
        ["translate"],
        ["models"],
        ["serve"],
        ["evaluate"],
        ["explain"],
        ["compare"],
        ["align"],
        ["doctor"],
        ["faults"],
        ["plot"],
        ["plot", "attention"],
        ["plot", "training"],
        ["plot", "length"],
        ["export"],
        ["distill"],
        ["push"],
        ["reference"],
        ["completion"],
    ],
)
def test_help_has_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--help") == 0
    text = capsys.readouterr().out
    assert f"seq2seq {' '.join(command)}" in text.partition("example")[2]
    assert run("--help") == 0
    assert command[0] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: COMMAND"),
        (["trian"], "invalid choice: 'trian'"),
        (["train"], "required: config"),
        (["train", "none.yaml"], "none.yaml: no such file"),
        (["train", "{toy}", "training.sede=1"], "training.sede: unknown key; did you mean seed?"),
        (["train", "{toy}", "--resume"], "not a run directory"),
        (["train", "{toy}", "--resume", "--overwrite"], "not allowed with"),
        (["train", "{toy}", "--fast"], "unrecognized arguments: --fast"),
        (
            ["translate", "{run}", "--beem", "5"],
            "seq2seq translate: unrecognized arguments: --beem 5; did you mean --beam? "
            "(see seq2seq translate --help)",
        ),
        (["train", "{toy}", "data.train.0.path=none.tsv"], "none.tsv: no such file"),
        (["train", "{toy}", "training.device=tpu"], "unknown device 'tpu'"),
        (["train", "{toy}", "run_dir=/dev/null/run"], "cannot be written"),
        (["train", "{toy}", "run_dir={run}"], "a run already exists; continue it with --resume"),
        (["translate", "none"], "none: not a run directory"),
        (["serve", "none", "--port", "0"], "none: not a run directory"),
        (["serve", "{run}", "--port", "65536"], "expected 0 to 65535, found '65536'"),
        (["serve", "{run}", "--port", "0", "--api-keys", "none.txt"], "none.txt: No such file"),
        (["serve", "{run}", "--port", "0", "--host", "192.0.2.1"], "192.0.2.1:0: cannot listen"),
        (["serve", "{run}", "--port", "0", "--beam", "99999"], "beam_size: expected 10000 or"),
        (["translate", "{run}", "-i", "none.txt"], "none.txt: cannot be read"),
        (["translate", "{run}", "-i", "{lines}", "-o", "{lines}"], "choose another file"),
        (["translate", "{run}", "-i", "{lines}", "-o", "/none/x"], "/none/x: cannot be written"),
        (["translate", "{run}", "-i", "{lines}", "--nbest", "0"], "expected 1, 2, 3, ..., found"),
        (["translate", "{run}", "-i", "{lines}", "--beam", "-1"], "expected 1, 2, 3, ..., found"),
        (["translate", "{run}", "-i", "{lines}", "--beam", "9" * 20], "expected 1, 2, 3, ..., fo"),
        (
            ["translate", "{run}", "-i", "{lines}", "--beam", "99999"],
            "beam_size: expected 10000 or",
        ),
        (["translate", "{run}", "-i", "{lines}", "--threads", "9999"], "expected 1024 or less"),
        (
            ["translate", "{run}", "-i", "{lines}", "--length-penalty", "1e9"],
            "expected 10.0 or less",
        ),
        (["translate", "{run}", "-i", "{lines}", "--length-penalty", "-1"], "length_penalty"),
        (["translate", "{run}", "-i", "{lines}", "--top-p", "0.5"], "--top-p requires --samples N"),
        (["translate", "{run}", "-i", "{lines}", "--samples", "2", "--top-p", "2"], "top_p"),
        (["translate", "{run}", "-i", "{lines}", "--samples", "2", "--nbest", "2"], "--nbest"),
        (["translate", "{run}", "-i", "{lines}", "--samples", "2", "--beam", "2"], "remove --beam"),
        (["translate", "{run}", "-i", "{lines}", "--mbr", "chrf", "--nbest", "2"], "--nbest"),
        (
            ["translate", "{run}", "-i", "{lines}", "--attention"],
            "--attention requires --format jsonl",
        ),
        (["translate", "{run}", "-i", "{lines}", "--device", "cuda:42"], "device cuda:42"),
        (["translate", "{run}", "-i", "{run}/source.model", "--invalid", "refuse"], "not UTF-8"),
        (["push", "{run}"], "required: USER/NAME"),
        (["push", "{run}", "a/b", "-o", "x", "--evaluate", "t.tsv"], "expected NAME=FILE, such as"),
        (["push", "none", "a/b"], "none: not a run directory"),
        (["distill", "{run}", "{lines}"], "required: -o/--output"),
        (["distill", "{run}", "{lines}", "-o", "/none/x"], "lines.txt:1: 1 column"),
        (["train", "{toy}", "--from", "none"], "none: not a run directory"),
        (["train", "{toy}", "--from", "{run}", "--resume"], "use one of them"),
        (["train", "{toy}", "--new-tokenizers"], "--new-tokenizers requires --from RUN"),
        (["train", "{toy}", "--show-pairs", "2", "--resume"], "not allowed with argument"),
        (["evaluate", "{run}", "none.tsv"], "none.tsv: no such file"),
        (["evaluate", "{run}", "/dev/null"], "/dev/null: an empty file"),
        (["evaluate", "{run}", "{lines}"], "lines.txt:1: 1 column"),
        (["plot", "attention", "{run}", "gato", "-o", "a.gif"], "unknown picture format; use .png"),
        (["plot", "attention", "{run}", ""], "the sentence is empty"),
        (["plot", "attention", "{run}"], "arguments are required: SENTENCE"),
        (["plot", "attention", "{run}", "a", "b", "--force", "c"], "but 2 sentences; give one"),
        (["plot", "attention", "{run}", "a", "--force", " "], "the given translation is empty"),
        (["plot", "training", "none"], "none: not a run directory, nor the name of a model"),
        (["translate", "{run}", "Hola mundo"], "reads texts from standard input or --input FILE"),
        (["plot", "training", "a/none"], "a/none/metrics.jsonl: cannot be read"),
        (["plot", "training", "{run}", "-o", "a.gif"], "unknown picture format; use .png"),
        (["plot", "training", "{run}", "--x", "hours"], "invalid choice: 'hours'"),
        (["plot", "length", "{run}"], "required: --test"),
        (["plot", "length", "{run}", "--test", "none.tsv"], "none.tsv: no such file"),
        (
            ["plot", "length", "{lines}", "--test", "{lines}"],
            "a file where a directory is expected",
        ),
        (["plot", "length", "{run}", "--test", "{lines}", "-o", "a.gif"], "unknown picture format"),
        (["explain", "none", "gato"], "none: not a run directory"),
        (["explain", "{run}", ""], "the sentence is empty"),
        (["explain", "{run}", "gato", "--step", "99"], "--step 99: the translation has 2 steps"),
        (["explain", "{run}", "gato", "--step", "0"], "expected 1, 2, 3, ..., found '0'"),
        (["explain", "{run}", "gato", "--step", "1", "--json"], "remove --step"),
        (["explain", "{run}", "gato", "--force", ""], "the translation to explain is empty"),
        (["explain", "{run}", "gato " * 30], "inference.max_source_length"),
        (
            ["explain", "{run}", "gato", "--look", "2:1", "--look", "1:1", "--look", "2:3"],
            "--look 2:1, 2:3: remove one of them",
        ),
        (["explain", "{run}", "gato", "--plot", "a.gif"], "unknown picture format; use .png"),
        (["explain", "{run}", "gato", "--html", "/none/a.html"], "/none/a.html: cannot be written"),
    ],
)
def test_user_errors_print_one_line_and_exit_with_2(
    toy: ToyCorpus,
    trained: Path,
    lines: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run"))
    places = {"{toy}": recipe, "{run}": trained, "{lines}": lines}
    for mark, place in places.items():
        arguments = [argument.replace(mark, str(place)) for argument in arguments]
    assert run(*arguments) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("seq2seq")]
    assert len(errors) == 1
    assert words in errors[0]
    assert lines.read_text().startswith("gato")
    assert not (tmp_path / "run/config.yaml").exists()


def test_show_pairs_prints_what_training_will_see(
    toy: ToyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run").replace("word_dropout: 0.02", "word_dropout: 0"))
    known = (toy.folder / "train.tsv").read_text().splitlines()
    assert run("train", recipe, "--show-pairs", 3) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 3
    assert set(shown) <= set(known)
    rates = dict.fromkeys(AugmentationConfig.model_fields, 0) | {"upper_case": 0.999999}
    changes = [f"data.augmentation.{kind}={rate}" for kind, rate in rates.items()]
    assert run("train", recipe, "--show-pairs", 3, *changes) == 0
    changed = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("    from ").upper() for line in changed[1::2]] == changed[::2]
    assert {line.removeprefix("    from ") for line in changed[1::2]} <= set(known)
    assert not (tmp_path / "run").exists()


def test_show_pairs_prints_different_pairs_in_proportion(
    toy: ToyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = dict.fromkeys(AugmentationConfig.model_fields, 0) | {"joined": 0.2}
    changes = [f"data.augmentation.{kind}={rate}" for kind, rate in rates.items()]
    small = tmp_path / "small.tsv"
    rows = sorted({f"{source}.\t{target}.\n" for source, target in toy_pairs(200, 5)})
    small.write_text("".join(rows))
    recipe = tmp_path / "toy.yaml"
    text = toy.recipe(tmp_path / "run").replace("word_dropout: 0.02", "word_dropout: 0")
    recipe.write_text(text)
    changes += [f"data.train=[{{path: {small}}}]", "data.batching={unit: tokens, size: 64}"]
    assert run("train", recipe, "--show-pairs", 100, *changes) == 0
    shown = capsys.readouterr().out.splitlines()
    changed = [line for line in shown if line.startswith("    from ")]
    assert len(shown) - len(changed) == len({*shown}) - len({*changed}) == 100
    assert 10 <= len(changed) <= 30  # of 20 expected
    assert run("train", recipe, "--show-pairs", 1000, *changes) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len([line for line in shown if not line.startswith("    from ")]) == len(rows)


def test_translate_through_pipes(trained: Path) -> None:
    command = [*SEQ2SEQ, "translate", str(trained), "--nbest", "4"]
    found = subprocess.run(
        command, input="gato come\r\n\nperro", capture_output=True, encoding="utf-8",
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert found.returncode == 0
    assert found.stderr == ""
    lines = found.stdout.split("\n")
    assert len(lines) == 13
    assert (lines[0], lines[4:8], lines[8]) == ("cat eats", [""] * 4, "dog")


def test_workers_are_a_number_or_auto(
    trained: Path, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("translate", trained, "-i", lines, "-o", tmp_path / "out", "--workers")
    assert run(*command, "auto") == 0
    assert (tmp_path / "out").read_text().startswith("cat")
    assert run(*command, "all") == 2
    assert "--workers: expected auto or 1, 2, 3, ..., found 'all'" in capsys.readouterr().err


def test_translate_imports_nothing_slow(trained: Path, lines: Path) -> None:
    code = (
        "import sys; from seq2seq import cli\n"
        f"code = cli.main(['translate', {str(trained)!r}, '-i', {str(lines)!r}])\n"
        "print(*sys.modules, sep=' ', file=sys.stderr); sys.exit(code)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert (found.returncode, found.stdout) == (0, "cat eats bread\n\ndog sees water\n")
    imported = set(found.stderr.split())
    assert "onnxruntime" in imported
    slow = {
        "IPython", "PIL", "datasets", "jinja2", "matplotlib", "onnx", "pandas", "pyarrow",
        "sacrebleu", "safetensors", "scipy", "sympy", "tensorboard", "torch", "transformers",
    }  # fmt: skip
    assert not slow & imported


def test_workers_do_not_change_the_output(
    toy: ToyCorpus, trained: Path, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.txt"
    assert run("translate", trained, "-i", lines, "-o", output, "--workers", 2) == 0
    assert output.read_text() == "cat eats bread\n\ndog sees water\n"
    test = toy.folder / "test.tsv"
    assert run("evaluate", trained, test, "-o", output, "--workers", 2) == 0
    shared, printed = output.read_text(), capsys.readouterr().out
    assert run("evaluate", trained, test, "-o", output) == 0
    assert (output.read_text(), capsys.readouterr().out) == (shared, printed)


def test_closed_pipe_is_not_an_error(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "many.txt"
    path.write_text("gato\n" * 5000)
    translate = f"{' '.join(SEQ2SEQ)} translate {trained} --beam 1 -i {path}"
    command = f"{translate} | head -n 1; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENVIRONMENT)
    assert (found.stdout, found.stderr, found.returncode) == ("cat\n", "", 0)


def test_translate_to_files(trained: Path, other: Path, lines: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    files = ("-i", lines, "-o", output)
    assert run("translate", trained, *files) == 0
    assert output.read_text() == "cat eats bread\n\ndog sees water\n"
    assert run("translate", trained, other, *files, "--format", "jsonl", "--attention") == 0
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert found[1]["parts"] == []
    assert found[0]["parts"][0]["attention"]
    sampled = ("--samples", 3, "--seed", 5, "--temperature", 3.0, "--top-k", 50, "--top-p", 0.99)
    assert run("translate", trained, *files, *sampled) == 0
    assert len(output.read_text().split("\n")) == 10
    assert run("translate", trained, *files, *sampled, "--mbr", "chrf") == 0
    assert len(output.read_text().split("\n")) == 4


def test_evaluate_writes_hypotheses_into_the_run(
    toy: ToyCorpus, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    shutil.copytree(trained, path)
    test = toy.folder / "test.tsv"
    assert run("evaluate", path, test, "--beam", 1, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sentences"] == 20
    assert found["hypotheses"] == str(path / "test.hypotheses.txt")
    assert len((path / "test.hypotheses.txt").read_text().splitlines()) == 20
    named = tmp_path / "named.txt"
    checkpoint = path / "checkpoints/step-000100"
    assert run("evaluate", checkpoint, test, "-o", named, "--single-reference") == 0
    assert "20 lines (0 in several sentences), beam 3; hypotheses: " in capsys.readouterr().out
    (path / "test.hypotheses.txt").unlink()
    assert run("evaluate", checkpoint, test) == 0
    assert (path / "test.hypotheses.txt").exists()
    assert not (checkpoint / "test.hypotheses.txt").exists()


def test_plot_and_reference(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "niño.png"
    assert run("plot", "attention", trained, "niño come pan", "-o", path) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert run("reference") == 0
    assert capsys.readouterr().out.startswith("# Configuration")


def test_overrides_may_follow_options(
    toy: ToyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run"))
    quick = ("training.max_steps=1", "training.validation_sentences=2")
    assert run("train", recipe, "--overwrite", *quick) == 0
    assert "Translate with: seq2seq translate" in capsys.readouterr().err
    assert run("train", recipe, quick[1], "--resume", "training.max_steps=2") == 0
    assert "changed since the last start: training.max_steps was 1 and is 2" in (
        capsys.readouterr().err
    )
    assert (tmp_path / "run/checkpoints/step-000002").is_dir()


def test_resume_of_a_finished_run_says_so(
    toy: ToyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run"))
    quick = ("training.max_steps=2", "training.validation_sentences=2")
    assert run("train", recipe, *quick) == 0
    assert "training ended: done. The model has learned next to nothing" in capsys.readouterr().err
    assert run("train", recipe, *quick, "--resume") == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("the run was already finished at step 2; nothing was left to do. ")


def test_end_of_training_says_if_the_model_has_learned_next_to_nothing(
    toy: ToyCorpus, trained: Path, japanese: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run"))
    assert run("train", recipe, "training.max_steps=1") == 0
    words = (
        r"training ended: done\. The model has learned next to nothing \(validation BLEU 0\.\d\): "
        r"check the columns \(--show-pairs 20\), .* learning_rate\. Translate with: seq2seq "
    )
    assert re.match(words, capsys.readouterr().err.splitlines()[-1])
    for learned in (trained, japanese):  # which by whole sentences would have a BLEU of 0
        copy = tmp_path / learned.name
        shutil.copytree(learned, copy)
        assert run("train", copy / "config.yaml", f"run_dir={copy}", "--resume") == 0
        last = capsys.readouterr().err.splitlines()[-1]
        assert "nothing was left to do. Translate with: seq2seq translate " in last


def test_explain_prints_and_writes(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    assert run("explain", trained, "gato come", "--html", page, "--plot", picture, "--words") == 0
    printed, told = capsys.readouterr()
    assert "translation  cat eats " in printed
    assert told.split() == [str(page), str(picture)]
    assert picture.read_text().startswith("<?xml")
    assert run("explain", trained, "gato come", "--force", "dog", "--json", "--beam", 1) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["translation"], data["forced"]) == ("dog", True)


def test_plots_are_written(toy: ToyCorpus, trained: Path, other: Path, tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"

    def drawn(*arguments: object) -> bool:
        path.unlink(missing_ok=True)
        return run("plot", *arguments, "-o", path) == 0 and path.stat().st_size > 1000

    assert drawn("attention", trained, "gato come pan", "perro ve agua", "--words", "--beam", 1)
    assert drawn("training", trained, other, "--x", "tokens")
    assert drawn("length", trained, other, "--test", toy.folder / "test.tsv")
