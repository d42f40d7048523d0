"""One text file out of a zip archive, as a stream."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from seq2seq.errors import DataError

MAX_BYTES = 1 << 30
MAX_RATIO = 100  # of sizes; sentences are packed to a third or a fifth
_ENCRYPTED = 0x1


@contextmanager
def open_member(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open the one member of a zip archive that has this name in whichever folder.

    Nothing is extracted, so the archive's own paths are never written to. Raises DataError where
    the archive is damaged, has no such member or several, or unpacks to more than the limits.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            member = _find(archive, path, name)
            # The stream ends at the declared size, which _find checks, whatever the data holds.
            with archive.open(member) as stream:
                yield io.BufferedReader(cast(io.RawIOBase, stream))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DataError(f"{path}: damaged, or not a zip archive ({error}); fetch it anew") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def _find(archive: zipfile.ZipFile, path: Path, name: str) -> zipfile.ZipInfo:
    members = [info for info in archive.infolist() if _base_name(info) == name]
    if len(members) != 1:
        found = [info.filename for info in (members or archive.infolist())]
        raise DataError(
            f"{path}: {len(members) or 'no'} members are called {name}, one is expected; found "
            f"{', '.join(map(repr, found[:8]))}{', ...' if len(found) > 8 else ''}; "
            f"unpack it and name the file itself"
        )
    (member,) = members
    where = f"{path}: member {member.filename!r}"
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
    return member


def _base_name(info: zipfile.ZipInfo) -> str:
    return info.filename.replace("\\", "/").rsplit("/", 1)[-1]
