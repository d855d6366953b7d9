"""Shell commands for the next step after a finding; each can be pasted into a shell as it is."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from string import digits
from typing import TYPE_CHECKING

from formats.file_name import FileKind
from kcli.inspector.verify import bucket_commands

if TYPE_CHECKING:
    from formats.archive import Archive
    from kcli.log.packed_directories import PackedDirectory


def _command(*words: str | Path) -> str:
    return " ".join(_word(str(word)) for word in words)


def _word(text: str) -> str:
    """A quoted word of a shell command. Text with control characters is written as $'...' with escaped bytes, so that
    no terminal interprets the name of a file."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_ansi_c, text)) + "'"


def _ansi_c(character: str) -> str:
    """A character, escaped for bash's $'...'."""
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def _named(path: str | Path) -> str:
    """Return a path as an argument that no command takes for an option."""
    text = str(path)
    return f"./{text}" if text.startswith("-") else text


def recover(directory: str | Path, *, in_place: bool = False) -> str:
    """Return the command that shows what a start after a crash would cut and rebuild in a partition's directory; with
    `in_place`, the command that cuts and rebuilds it."""
    return _command("kcli", "recover", "--unclean", "--in-place" if in_place else "--dry-run", _named(directory))


def recover_log_directory(directory: str | Path) -> str:
    """The command that shows what Kafka's start would do to a broker's log directory."""
    return _command("kcli", "recover", "--dry-run", _named(directory))


def salvage_log_directory(directory: str | Path) -> str:
    """The command that shows what salvage would keep of a broker's log directory."""
    return _command("kcli", "recover", "--salvage", "--dry-run", _named(directory))


def salvage(directory: str | Path) -> str:
    """The command that shows what salvage would keep of a partition's directory."""
    return _command("kcli", "recover", "--unclean", "--salvage", "--dry-run", _named(directory))


def salvage_to_copy(directory: Path) -> str:
    """The command that copies what salvage keeps of a partition's directory to a path beside the log directory."""
    copy = beside(directory)
    return _command("kcli", "recover", "--unclean", "--salvage", "--out", copy, _named(directory))


def salvage_to(new: str, directory: Path, home: Path, options: Sequence[str] = ()) -> str:
    """Return the command that writes what salvage keeps of a log directory or a partition's directory to a new path.

    new: a name for that path. home: the log directory; if the working directory is in it, the path is one beside it, as
    a directory in there would keep Kafka from starting.
    """
    home = home.resolve()
    place = Path(os.path.relpath(home.parent / new)) if Path(new).resolve().is_relative_to(home) else Path(new)
    return _command("kcli", "recover", "--salvage", *options, "--out", place, _named(directory))


def with_config(command: str, config: Path) -> str:
    """Return a command of this module, with --config added if it is a `kcli recover`."""
    return re.sub("(^|&& )kcli recover ", lambda match: f"{match[0]}--config {quoted(config)} ", command)


def beside(directory: Path) -> Path:
    """Return a path beside the log directory for a copy of a partition's directory."""
    home = directory.absolute().parent
    return home.parent / f"{home.name}-{directory.absolute().name.removeprefix('.')}"


def shorten(path: Path, size: int) -> str:
    """The command that cuts a file to its first `size` bytes, and keeps the whole file beside it."""
    whole = path.with_name(f"{path.name}.moved")
    return f"{move([(path, whole)])} && {_command('head', '-c', str(size), '--', whole)} > {quoted(path)}"


def remove(path: str | Path) -> str:
    """The command that deletes a file."""
    return _command("rm", "--", path)


def change(path: str | Path, line: str, other: str) -> str:
    """Return the command that replaces `line` of a small file by `other`; neither may contain a slash."""
    return _command("sed", "-i", f"s/^{line}$/{other}/", _named(path))


def append(path: str | Path, line: str) -> str:
    """Return the command that appends a line to a small file, whose last line may lack its line end."""
    return f"printf '\\n%s\\n' {_word(line)} >> {quoted(path)}"


def dump(path: str | Path, offset: int | None = None) -> str:
    """The command that shows the first records of a file, or those from an offset on."""
    start = [] if offset is None or offset < 0 else ["--from-offset", str(offset)]
    return _command("kcli", "dump-segment", *start, "--limit", "20", _named(path))


def transactions(log_directory: str | Path, *, is_open: bool) -> str:
    """Return the command that shows the transactions in a log directory; with `is_open`, only those that hang."""
    return _command("kcli", "transactions", "find-hanging" if is_open else "list", "--data-dir", log_directory)


def describe_groups(log_directory: str | Path, groups: Iterable[str]) -> str:
    """Return the command that shows the committed offsets of groups in a log directory."""
    return _command("kcli", "groups", "describe", "--data-dir", log_directory, "--", *groups)


IN_ITS_PLACE = r".*-[0-9]+/[0-9]+\.log"
"""The regular expression, for find, of the paths of logs in the directories of partitions."""


def search(directory: str | Path, name: str) -> str:
    """The command that finds, below a directory, the files whose name is `name`, or `name` followed by a character that
    is no digit."""
    return _command("find", _named(directory), "-name", name, "-o", "-name", f"{name}[!0-9]*")


def search_log(directories: Iterable[Path], begin: str, partition: str) -> str:
    """Return the command that finds, below these directories, the .log files whose names begin with `begin` (or with a
    dot and `begin`). Files with names of Kafka's form in partitions' directories are left out, since they are known,
    except empty ones in the directory `partition`."""
    own = ("-path", f"*/{partition}/*", "-size", "0")
    return _command(
        "find",
        *map(_named, directories),
        "(",
        "-name",
        f"{begin}*.log*",
        "-o",
        "-name",
        f".{begin}*.log*",
        ")",
        "(",
        "!",
        "-regex",
        IN_ITS_PLACE,
        "-o",
        *own,
        ")",
    )


def search_log_directory(directory_id: str) -> str:
    """The command that finds the meta.properties of a log directory, on all disks that are mounted."""
    grep = ("-exec", "grep", "-lF", f"directory.id={directory_id}", "{}", "+")
    return _command("find", "/", "-path", "/proc", "-prune", "-o", "-name", FileKind.META_PROPERTIES, *grep)


LINKS_NAMED = 40
"""The maximum number of links that a command names one by one."""


def copy_in_place_of_links(home: Path, links: Iterable[Path]) -> str:
    """Return the command that replaces each of these links below a log directory with a copy of its target. If there
    are more than LINKS_NAMED links, the command finds the links itself: those that lead to files in the log
    directory."""
    names = [_word(_named(each.relative_to(home))) for each in links]
    copy = 'cp -p --remove-destination -- "$(realpath -- "$each")" "$each"'
    if len(names) <= LINKS_NAMED:
        return f"(cd {quoted(home)} && for each in {' '.join(names)}; do {copy}; done)"
    inside = f'case $(realpath -- "$each") in "$(pwd -P)"/*) {copy};; esac'
    found = "find . -mindepth 1 -maxdepth 2 -type l -xtype f"
    return f"(cd {quoted(home)} && {found} -exec sh -c {shlex.quote(f'each=$1; {inside}')} - {{}} ';')"


def move(pairs: Iterable[tuple[Path, Path]]) -> str:
    """Return the command that renames files and directories one after the other, without overwriting any. pairs: (old
    path, new path). What lies in a directory that an earlier pair renames is found at its new path."""
    done: list[tuple[Path, Path]] = []
    for one, other in pairs:
        home = next((each for each in reversed(done) if one.is_relative_to(each[0])), None)
        done.append((one if home is None else home[1] / one.relative_to(home[0]), other))
    return " && ".join(_command("mv", "-nT", "--", one, other) for one, other in done)


def move_into(target: Path, directory: Path, names: Collection[str]) -> str:
    """Return the command that moves these files of a directory into another one, without overwriting any. If they are
    all files whose names begin with a digit, as those of segments do, the command names them by a pattern."""
    numbered = {each.name for each in directory.iterdir() if each.name[0] in digits}
    words = [f"{quoted(directory)}/[0-9]*"] if numbered and numbered <= set(names) else []
    words += [quoted(directory / each) for each in names if not words or each not in numbered]
    return f"{_command('mv', '-n', '-t', _named(target), '--')} {' '.join(words)}"


def make_of_flat(directory: Path, begin: str) -> str:
    """Return the command that makes a directory, and moves into it the files beside it that have the name of one of
    Kafka's files behind `begin`."""
    rename = f'mv -nT -- "$each" {_word(directory.name)}/"${{each#"$begin"}}"'
    each = f'for each in "$begin"[0-9lp]*; do {rename}; done'
    return f"(cd {quoted(directory.parent)} && begin={_word(begin)} && mkdir -- {_word(directory.name)} && {each})"


def move_up(path: Path) -> str:
    """Return the command that moves the content of a directory to its parent, except files whose names are taken
    there."""
    taken = sorted({each.name for each in path.iterdir()} & {each.name for each in path.parent.iterdir()})
    left = "".join(f" ! -name {_word(each)}" for each in taken)
    return f"find {quoted(path)} -mindepth 1 -maxdepth 1{left} -exec mv -n -t {quoted(path.parent)} -- {{}} +"


def remove_directory(path: Path) -> str:
    """The command that removes an empty directory."""
    return _command("rmdir", "--", path)


def move_segments(directory: Path, stems: Iterable[str]) -> str:
    """Return the command that moves all files of these segments out of Kafka's way, within their directory. stems: the
    base offsets in the files' names."""
    files = " ".join(f"{each}.*" for each in stems)
    return f'(cd {quoted(directory)} && for each in {files}; do mv -nT -- "$each" "$each.moved"; done)'


def write(path: str | Path, text: str) -> str:
    """The command that writes a small text file."""
    return f"printf {shlex.quote(text.replace(chr(10), chr(92) + 'n'))} > {quoted(path)}"


def make_and_write(path: Path, text: str) -> str:
    """Return the command that makes a directory, if it does not exist, and writes a small text file in it."""
    return f"{_command('mkdir', '-p', '--', path.parent)} && {write(path, text)}"


def look(directory: str | Path) -> str:
    """The command that shows what is mounted at a directory, and what is in it."""
    return f"df -- {quoted(directory)}; ls -la -- {quoted(directory)}"


def write_with_random_id(path: str | Path, text: str) -> str:
    """Return the command that writes `text` to a small file, with a new random id in place of the %s in `text`."""
    new_id = "\"$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d =)\""
    return f"printf {shlex.quote(text.replace(chr(10), chr(92) + 'n'))} {new_id} > {quoted(path)}"


def decompress(path: Path, target: Path, archive: Archive) -> str:
    """Return the command that writes the content of a compressed file, or of a text of bytes, to a new file."""
    first, *others = archive.undo.split(" | ")
    undo = " | ".join((f"{first} < {quoted(path)}", *others))
    return f"{_command('test', '!', '-e', target)} && {undo} > {quoted(target)}"


def unpack(packed: PackedDirectory, directory: Path) -> str:
    """Return the command that takes a partition's directory out of an archive. directory: its path afterwards; files
    that are there are kept."""
    make = _command("mkdir", "-p", "--", directory)
    if packed.is_zip:
        members = [f"{packed.member}/*"] if packed.member else []
        return f"{make} && {_command('unzip', '-nj', _named(packed.path), *members, '-d', directory)}"
    program = ("-I", str(packed.compression)) if packed.compression is not None else ()
    strip = packed.member.count("/") + 1 if packed.member else 0
    options = ("-C", directory, *program, f"--strip-components={strip}", "-xkf", packed.path)
    return f"{make} && {_command('tar', *options, *(['--', packed.member] if packed.member else []))}"


def join(parts: Iterable[Path], target: Path) -> str:
    """Return the command that writes the content of several files, one after the other, to a new file."""
    return f"{_command('test', '!', '-e', target)} && {_command('cat', '--', *parts)} > {quoted(target)}"


def permit(path: str | Path) -> str:
    """The command that lets the owner read and write a file."""
    return _command("chmod", "u+rw", "--", path)


def permit_files(directory: Path) -> str:
    """The command that lets the owner read and write the files below a log directory, but for KRaft snapshots, which
    are read-only."""
    found = ("-type", "f", "!", "-name", f"*{FileKind.KRAFT_SNAPSHOT}", "!", "-perm", "-u=rw")
    return _command("find", _named(directory), *found, "-exec", "chmod", "u+rw", "{}", "+")


def remove_whiteouts(directory: Path) -> str:
    """The command that deletes the whiteouts in a directory (see kcli.log.whiteouts)."""
    which = "( -type c -o -type f -name .wh.* -size 0 )"
    return _command("find", _named(directory), *which.split(), "-delete")


def permit_directory(path: str | Path) -> str:
    """The command that lets the owner list, change and enter a directory."""
    return _command("chmod", "u+rwx", "--", path)


def unseal(paths: Sequence[Path], attributes: str, *, deeply: bool = False) -> str:
    """Return the command that takes attributes of chattr off files and directories. deeply: also off all that the
    directories contain."""
    return _command("chattr", *(["-R"] if deeply else []), f"-{attributes}", "--", *paths)


def give_owner(path: Path) -> str:
    """Return the command that gives a file, or a directory with all in it, the owner and the group of its parent
    directory."""
    with_content = ["-R"] if path.is_dir() else []
    return _command("chown", *with_content, f"--reference={path.parent}", "--", path)


def dump_metadata(log_directory: str | Path) -> str:
    """Return the command that shows the broker registrations in the metadata log; if the log directory has no metadata
    log, the command that finds meta.properties."""
    from formats.file_name import METADATA_DIRECTORY

    directory = Path(log_directory, METADATA_DIRECTORY)
    if not directory.is_dir():
        return search(Path(log_directory).parent, "meta.properties")
    return f"kcli dump-segment --format jsonl {quoted(directory)} | grep RegisterBrokerRecord"


def quoted(path: str | Path) -> str:
    """A path as a quoted word of a shell command."""
    return _word(_named(path))


def show(path: str | Path) -> str:
    """The command that shows the text of a small file with control characters made visible."""
    return f"cat -A {quoted(path)}"


def list_file(path: str | Path) -> str:
    """The command that shows what kind of a file is at the path, or which object has the URL."""
    if bucket_commands.is_url(path):
        return bucket_commands.show(str(path))
    return f"ls -ld -- {quoted(path)}"


def remove_all(paths: Sequence[str | Path]) -> str:
    """The command that deletes files, or objects of a bucket."""
    if any(map(bucket_commands.is_url, paths)):
        return bucket_commands.remove(list(map(str, paths)))
    return _command("rm", "--", *paths)


def verify(*paths: str | Path) -> str:
    """The command that checks a file or a directory, or the log directories of one broker together."""
    return _command("kcli", "verify", *map(_named, paths))


def restore_backup(store: str, at: str, outs: Iterable[str | Path], topics: Iterable[str] = ()) -> str:
    """The command that restores the newest run at or before a time."""
    chosen = [word for topic in topics for word in ("--topic", topic)]
    new = [word for out in outs for word in ("--out", _named(out))]
    return _command("kcli", "restore", _named(store), "--at", at, *chosen, *new)


def orphans_of_backup(store: str) -> str:
    """The command that names the objects that no run of a backup needs."""
    return _command("kcli", "backup", "--to", store, "--orphans")


def verify_tier(log_directory: str | Path | None, tier: str | Path, options: Sequence[str] = ()) -> str:
    """The command that checks a tier. options: the options of the command line with which the tier is opened
    (Store.options)."""
    return _command("kcli", "tier", "verify", *_of_tier(log_directory, tier), *options)


def fetch_from_tier(
    log_directory: str | Path | None, tier: str | Path, topic: str, partition: int, options: Sequence[str] = ()
) -> str:
    """The command that fetches a partition from a tier to a new directory. options: the options of the command line
    with which the tier is opened (Store.options)."""
    whose = ("--topic", topic, "--partition", str(partition), "--out", f"{topic}-{partition}-fetched")
    return _command("kcli", "tier", "fetch", *_of_tier(log_directory, tier), *options, *whose)


def _of_tier(log_directory: str | Path | None, tier: str | Path) -> list[str]:
    return [*([] if log_directory is None else [_named(log_directory)]), "--tier", _named(tier)]
