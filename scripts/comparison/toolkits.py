"""How each toolkit trains and translates, and what its log says."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BEAM, BATCH_PIECES = 5, 820  # of source pieces with padding


@dataclass(frozen=True)
class Toolkit:
    """Commands of a toolkit, and regular expressions for its log of training."""

    train: str
    translate: str
    speed: str  # target pieces a second
    weights: str = ""
    starts: str = ""  # the line after which the time counts; empty: it ends by itself
    checkpoints: str = ""  # to choose from; empty: it has chosen itself
    lines: str = "pieces"  # what it reads, as a suffix of prepared files


SEQ2SEQ = Toolkit(
    "{python} -m seq2seq train {out}/recipe.yaml --overwrite run_dir={run}/model "
    "training.max_minutes={minutes}",
    "{python} -m seq2seq translate {run}/model -i {source} -o {target} --beam {beam} --threads 1 "
    "{options}",
    r" (\d+) tokens/s",
    lines="txt",
)
ONMT = Toolkit(
    "{python} {here}/onmt_shim.py -config {settings}",
    # The limit of length is about that of seq2seq; by default it is 1.25 times the source.
    "{python} -m onmt.bin.translate -model {model} -src {source} -output {target} "
    "-beam_size {beam} -length_penalty wu -alpha 1 -max_length_ratio 2 -batch_type tokens "
    f"-batch_size {BATCH_PIECES}",
    r"Step \d+/.*?\d+/ *(\d+) tok/s",
    r"number of parameters: (\d+)",
    "Start training loop",
    "model_step_*.pt",
)
JOEYNMT = Toolkit(
    "{python} {here}/joeynmt_shim.py train {settings} --skip-test",
    "{python} {here}/joeynmt_shim.py translate {settings} -o {target}",
    r"Tokens per Sec: +(\d+)",
    r"Total params: (\d+)",
    "EPOCH 1",
    "model/[0-9]*.ckpt",
)
MODELS = {
    "seq2seq": SEQ2SEQ,
    "onmt-rnn": ONMT,
    "onmt-transformer": ONMT,
    "joeynmt-rnn": JOEYNMT,
    "joeynmt-transformer": JOEYNMT,
}


@dataclass(frozen=True)
class Setup:
    """A model of MODELS: trained in DIR/NAME, with what is prepared in DIR."""

    name: str
    out: Path
    envs: Path = Path("envs")
    minutes: float = 60

    @property
    def run(self) -> Path:
        """The folder of the model."""
        return self.out / self.name

    @property
    def toolkit(self) -> Toolkit:
        """The toolkit of the model."""
        return MODELS[self.name]

    @property
    def python(self) -> str:
        """The Python of the toolkit's environment."""
        own = self.toolkit is SEQ2SEQ
        return sys.executable if own else f"{self.envs}/{self.name.partition('-')[0]}/bin/python"

    def settings(self, model: str, beam: int) -> str:
        """Return the text of the settings of a foreign model."""
        text = (HERE / f"{self.name}.yaml").read_text(encoding="utf-8")
        named = {"OUT": self.out, "RUN": self.run, "MODEL": model, "BEAM": beam}
        return re.sub(rf"\b({'|'.join(named)})\b", lambda word: str(named[word[0]]), text)

    def command(self, words: str, target: Path, *, model: str = "", beam: int = BEAM,
                part: str = "") -> list[str]:  # fmt: skip
        """Return a command that writes a file; write the settings that it reads."""
        settings = target.with_suffix(".yaml")
        if self.toolkit is not SEQ2SEQ:
            settings.write_text(self.settings(model, beam), encoding="utf-8")
        options = "" if ".split" in target.name else "--no-split-sentences"
        values = {
            **vars(self), "python": self.python, "here": HERE, "run": self.run, "model": model,
            "settings": settings, "source": self.out / f"{part}.{self.toolkit.lines}",
            "target": target, "beam": beam, "options": options,
        }  # fmt: skip
        return [*filter(None, (word.format_map(values) for word in words.split()))]


def logged(pattern: str, log: Path) -> list[float]:
    """Return the numbers that a log has at a pattern."""
    return [float(number) for number in re.findall(pattern, log.read_text("utf-8", "replace"))]
