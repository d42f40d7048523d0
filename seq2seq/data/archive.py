"""One text file out of a zip or tar archive, as a stream."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from seq2seq.data.corpus import DAMAGED, MAX_RATIO, open_unpacked
from seq2seq.errors import DataError

MAX_BYTES = 1 << 30
_ENCRYPTED = 0x1
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_WITHOUT_DATA = (
    tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
)  # fmt: skip


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip or, by its name, a tar archive."""
    return path.name.endswith((".zip", *_TARS)) or zipfile.is_zipfile(path)


@contextmanager
def open_member(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open the one file of an archive that has this name in whichever folder.

    Nothing is extracted, so the archive's own paths are never written to, and links and devices
    are never made. Raises DataError where the archive is damaged, has no such file or several, or
    unpacks to more than the limits.
    """
    is_tar = path.name.endswith(_TARS)
    try:
        with _open_tar(path, name) if is_tar else _open_zip(path, name) as stream:
            yield stream
    except (zipfile.BadZipFile, tarfile.TarError, NotImplementedError, *DAMAGED) as error:
        kind = "tar" if is_tar else "zip"
        raise DataError(
            f"{path}: damaged, or not a {kind} archive ({error}); fetch it anew"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


@contextmanager
def _open_zip(path: Path, name: str) -> Iterator[BinaryIO]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        member = members[_find([info.filename for info in members], path, name)]
        _check_zipped(member, f"{path}: member {member.filename!r}")
        # The stream ends at the declared size, which is checked, whatever the data holds.
        with archive.open(member) as stream:
            yield io.BufferedReader(cast(io.RawIOBase, stream))


def _check_zipped(member: zipfile.ZipInfo, where: str) -> None:
    if member.flag_bits & _ENCRYPTED:
        raise DataError(f"{where} is encrypted; unpack it and name the file itself")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"{where} is neither stored nor deflated; unpack it and name the file itself"
        )
    if member.file_size > min(MAX_BYTES, MAX_RATIO * max(member.compress_size, 1)):
        raise DataError(
            f"{where} unpacks from {member.compress_size} to {member.file_size} bytes: over the "
            f"limit of {MAX_BYTES} bytes or {MAX_RATIO} to 1; if you trust it, unpack it yourself"
        )


@contextmanager
def _open_tar(path: Path, name: str) -> Iterator[BinaryIO]:
    with open_unpacked(path, most=MAX_BYTES) as stream:
        names = [info.name for info, _ in _walk(stream)]
    wanted = _find(names, path, name)
    with open_unpacked(path, most=MAX_BYTES) as stream:
        for number, (info, data) in enumerate(_walk(stream)):
            if number == wanted:
                if info.type not in _FILES:
                    raise DataError(
                        f"{path}: member {info.name!r} is a link or a device, not a file; unpack "
                        "the archive and name the file itself"
                    )
                yield io.BufferedReader(data)
                return


def _walk(stream: BinaryIO) -> Iterator[tuple[tarfile.TarInfo, _Data]]:
    """Yield the header of each member and its data, which can be read until the next one.

    tarfile's own loop would read long names and extended headers whole, however large they say
    they are; here they are members like others, and the short name of a file has to do.
    """
    while (block := stream.read(tarfile.BLOCKSIZE)).strip(b"\0"):
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if info.size < 0 or info.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file, or one of a size below zero")
        size = 0 if info.type in _WITHOUT_DATA else info.size
        data = _Data(stream, size)
        yield info, data
        data.skip(-size % tarfile.BLOCKSIZE)


class _Data(io.RawIOBase):
    """The next bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._left)
        chunk = self._stream.read(wanted)
        if len(chunk) < wanted:
            raise EOFError("it ends within a member")
        buffer[:wanted] = chunk
        self._left -= wanted
        return wanted

    def skip(self, more: int) -> None:
        """Pass over what is left, and so many bytes more."""
        self._left += more
        while self.read(1 << 16):
            pass


def _find(names: list[str], path: Path, name: str) -> int:
    """Return the place of the one member that is called so in its folder."""
    places = [n for n, each in enumerate(names) if each.replace("\\", "/").split("/")[-1] == name]
    if len(places) != 1:
        found = [names[place] for place in places] or names
        raise DataError(
            f"{path}: {len(places) or 'no'} members are called {name}, one is expected; found "
            f"{', '.join(map(repr, found[:8]))}{', ...' if len(found) > 8 else ''}; "
            f"unpack it and name the file itself"
        )
    return places[0]
