"""The sources in sources.tsv: repositories and packages, their Spanish and English files."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub at a commit; without one, at the time of another repository's.

    Or a version of a package of Debian, whose name has no owner.
    """

    name: str  # owner/name
    commit: str
    time_of: str = ""
    suffix: str = ""  # of the folder of a second clone

    @property
    def is_package(self) -> bool:
        """Whether it is a package of Debian."""
        return "/" not in self.name

    def folder(self, clones: Path) -> Path:
        """Return the folder of its clone, or of the package's files."""
        if self.is_package:
            return clones / f"{self.name}_{self.commit.rpartition(':')[2]}"
        return clones / (self.name.replace("/", "-") + self.suffix)

    def commands(self, clones: Path) -> list[str]:
        """Return the shell commands that clone it, or unpack the package."""
        folder, commit = self.folder(clones), self.commit
        if self.is_package:
            return [
                f"apt-get download {self.name}={commit}",
                f"dpkg-deb --extract {self.name}_*.deb {folder} && rm {self.name}_*.deb",
            ]
        if not commit:
            time = f"$(git -C {Repository(self.time_of, '').folder(clones)} log -1 --format=%cI)"
            commit = f'$(git -C {folder} rev-list -1 --before="{time}" HEAD)'
        return [
            f"git clone https://github.com/{self.name} {folder}",
            f"git -C {folder} checkout --detach {commit}",
        ]


@dataclass(frozen=True)
class Files:
    """Files of a source: a row of sources.tsv, whose comment describes the columns."""

    source: str
    licence: str
    output: str  # file that its training pairs are written to
    format: str
    repositories: tuple[Repository, ...]  # one or two
    pattern: str
    counterpart: str

    def pairs(self, clones: Path) -> Iterator[tuple[Path, Path]]:
        """Yield the Spanish files that have an English counterpart, and this."""
        root, english_root = (self.repositories[n].folder(clones) for n in (0, -1))
        found = sorted(root.glob(self.pattern))
        if self.counterpart == "ids":
            yield from _by_ids(found, sorted(english_root.glob(self.pattern)))
            return
        old, _, new = self.counterpart.partition(">")
        for path in found:
            name = path.relative_to(root).as_posix()
            # What is replaced is the last match.
            other, number = re.subn(f"{old}(?!.*{old})", new, name) if old else (name, 1)
            if number and (english_root / other).is_file():
                yield path, english_root / other


def read_sources() -> list[Files]:
    """Return the rows of sources.tsv."""
    rows = []
    text = Path(__file__).with_name("sources.tsv").read_text(encoding="utf-8")
    _, *lines = (line for line in text.splitlines() if not line.startswith("#"))
    for line in lines:
        source, licence, output, form, names, pattern, counterpart = line.split("\t")
        repositories: list[Repository] = []
        for name in names.split():
            name, _, commit = name.partition("@")
            first = repositories[0].name if repositories else ""
            suffix = "-en" if name == first else ""
            repositories.append(Repository(name, commit, "" if commit else first, suffix))
        files = Files(source, licence, output, form, tuple(repositories), pattern, counterpart)
        rows.append(files)
    return rows


def _by_ids(spanish: list[Path], english: list[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield Spanish files, and the English one that has most of their ids which only one has."""
    owners: dict[str, list[Path]] = defaultdict(list)
    for path in english:
        for identifier in _ids(path):
            owners[identifier].append(path)
    for path in spanish:
        shared = [owners[each][0] for each in sorted(_ids(path)) if len(owners[each]) == 1]
        if shared:
            yield path, Counter(shared).most_common(1)[0][0]


def _ids(path: Path) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', path.read_text(encoding="utf-8")))
