"""Makes a batch job script that starts every rank through `stepscope launch`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stepscope.base.errors import UsageError
from stepscope.base.quoting import one_line
from stepscope.launch.job_preset import SCHEDULERS, JobPreset

_FIELD = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_WORD = re.compile(r"[\w.:@+-]+", re.ASCII)

ERRORS = {
    "bad-jobscript": (
        "An account, a queue, a wall time or a directive is written into a line that the scheduler reads, not "
        "a shell: each is one word of letters, digits and `.:@+-_`, and a directive is one line."
    )
}


@dataclass(frozen=True, slots=True)
class Job:
    """What a job runs and requests; None where nothing was given.

    Args:
        tool: the profiler, which must be found where the ranks run.
        launch: options of `stepscope launch`.
        finalize: whether the tool's raw results are finished after the run.
        profiles, tmpdir: folders for the profiler's and temporary files, relative to where the job was submitted.
        account, queue, walltime: the scheduler's words.
        gpus_per_node: 0 requests none.
        binds: mounts, in the syntax of the container's runtime.
        directives: more header lines, without the scheduler's mark.
        setup: more lines before the run.
        made_by: the command line that made the script.
    """

    nodes: int
    ranks_per_node: int
    tool: str
    launch: Sequence[str]
    command: Sequence[str]
    finalize: bool = False
    profiles: str = "profiles"
    account: str | None = None
    queue: str | None = None
    walltime: str | None = None
    gpus_per_node: int | None = None
    cpus_per_rank: int | None = None
    tmpdir: str | None = None
    container: str | None = None
    binds: Sequence[str] = ()
    directives: Sequence[str] = ()
    setup: Sequence[str] = ()
    made_by: Sequence[str] = ()


def not_given(preset: JobPreset, job: Job) -> dict[str, str]:
    """Required words that were not given, with their placeholders."""
    return {name: text for name, text in preset.required.items() if getattr(job, name) is None}


def jobscript(preset: JobPreset, job: Job) -> str:
    """Makes the script.

    Raises:
        UsageError: a value cannot be written into a scheduler line.
    """
    mark = "#PBS" if preset.scheduler == "pbs" else "#SBATCH"
    words = _fields(preset, job)
    lines = ["#!/bin/bash -l" if preset.scheduler == "pbs" else "#!/bin/bash"]
    if job.made_by:
        lines.append(f"# `{one_line(bash_words(job.made_by))}` made this.")
    lines.append(f"# Submit it with: {SCHEDULERS[preset.scheduler]} FILE")
    lines += _filled(preset.directives, words)
    lines += [f"{mark} {_directive(item)}" for item in job.directives]
    lines += ["", *preset.setup]
    lines += preset.container_setup if job.container is not None else ()
    lines += [*job.setup, "set -euo pipefail", *preset.before, ""]
    lines += _folders(preset, job)
    inside = _container(preset, job)
    (item,) = _filled([preset.one_rank], words)
    lines += [
        "",
        f"# {job.tool} must be found where the ranks run, and that takes seconds to see.",
        *_continued(item, *inside, f'stepscope doctor --tool {bash_word(job.tool)} -o "$PROFILES"'),
        "",
    ]
    launch = f'stepscope launch {bash_words(job.launch)} -o "$PROFILES" --'
    run = _continued(*_filled(preset.launcher, words), *inside, launch, bash_words(job.command))
    if job.finalize:
        # Recorded data is finished even if the run failed.
        finish = _continued(*inside, 'stepscope launch --finalize "$PROFILES"')
        lines += ["status=0", *run[:-1], f"{run[-1]} || status=$?", *finish, 'exit "$status"']
    else:
        lines += run
    return "\n".join(lines) + "\n"


def _fields(preset: JobPreset, job: Job) -> dict[str, str | None]:
    """The values of a preset's words in braces; None for what is unknown or not requested."""
    gpus = job.gpus_per_node
    if gpus is None:
        gpus = preset.gpus_per_node or job.ranks_per_node
    cpus = job.cpus_per_rank or preset.cpus_per_rank
    if cpus is None and preset.cpus_per_node is not None:
        cpus = max(1, preset.cpus_per_node // job.ranks_per_node)
    scheduled = {
        name: _word(name, getattr(job, name) or preset.required.get(name) or getattr(preset, name, None))
        for name in ("account", "queue", "walltime")
    }
    numbers = {
        "nodes": job.nodes,
        "ranks_per_node": job.ranks_per_node,
        "ranks": job.nodes * job.ranks_per_node,
        "gpus_per_node": gpus or None,
        "cpus_per_rank": cpus,
        "cpus_per_node": cpus and cpus * job.ranks_per_node,
    }
    return {
        **scheduled,
        **{name: None if number is None else str(number) for name, number in numbers.items()},
        "tmpdir": '"$TMPDIR"' if job.tmpdir or preset.tmpdir else None,
    }


def _filled(texts: Iterable[str], words: Mapping[str, str | None]) -> list[str]:
    """Fills in texts, dropping lines or parts with unknown words."""

    def is_known(text: str) -> bool:
        return all(words.get(name) is not None for name in _FIELD.findall(text))

    lines = []

    def optional(part: re.Match[str]) -> str:
        if not _FIELD.search(part[1]):
            return part[0]
        return part[1] if is_known(part[1]) else ""

    for text in texts:
        filled = _OPTIONAL.sub(optional, text)
        if is_known(filled):
            lines.append(_FIELD.sub(lambda place: words[place[1]] or "", filled))
    return lines


def _folders(preset: JobPreset, job: Job) -> list[str]:
    lines = [f"PROFILES={_from_here(job.profiles)}"]
    folders = ['"$PROFILES"']
    if job.tmpdir is not None:
        lines.append(f"export TMPDIR={_from_here(job.tmpdir)}")
        folders.append('"$TMPDIR"')
    elif preset.tmpdir is not None:
        lines.append(f'export TMPDIR="$PROFILES"/{bash_word(preset.tmpdir)}')
        folders.append('"$TMPDIR"')
    return [*lines, f"mkdir -p {' '.join(folders)}"]


def _from_here(path: str) -> str:
    """A path for bash, relative to where the job was submitted."""
    return bash_word(path) if path.startswith("/") else f'"$PWD"/{bash_word(path)}'


def _container(preset: JobPreset, job: Job) -> list[str]:
    """The words before a program that runs in the image, with the job's folder; none without an image."""
    if job.container is None:
        return []
    mounts = "".join(f" --bind {bash_word(bind)}" for bind in job.binds)
    image = bash_word(job.container)
    if preset.images is not None and "/" not in job.container:
        image = f"{preset.images}/{image}"
    return [f'{preset.container} --bind "$PWD" --pwd "$PWD"{mounts} {image}']


def _continued(*parts: str) -> list[str]:
    first, *others = parts
    lines = [first, *(f"  {part}" for part in others)]
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def _word(name: str, value: str | None) -> str | None:
    if value is not None and not _WORD.fullmatch(value):
        raise _bad(f"{name} {value!r} is not a word that a scheduler reads")
    return value


def _directive(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise _bad(f"the directive {text!r} is not a line of text")
    return text.strip()


def _bad(message: str) -> UsageError:
    return UsageError(
        message, hint="give it as the scheduler takes it on its command line, without quotes", slug="bad-jobscript"
    )


_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_TYPED_AS_QUOTES = re.compile("[\u00a0\u2018-\u201f\u2028\u2029]")
"""Characters that bash takes literally and shellcheck for a typing error."""
_RESERVED = re.compile("case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while")


def bash_word(word: str) -> str:
    r"""Quotes one word if necessary.

    `shlex.quote` is right for bash, but shellcheck warns about a `$` between single quotes (SC2016) and about `'"'"'`.

    >>> bash_word("it's $5")
    '"it\'s \\$5"'
    """
    if _PLAIN.fullmatch(word) and not _RESERVED.fullmatch(word):
        return word
    if not word.isprintable() or _TYPED_AS_QUOTES.search(word):
        return "$'" + "".join(map(_escaped, word)) + "'"
    if not re.search(r"['$`\\]", word) and not word.startswith("~"):
        return f"'{word}'"
    home, quoted = ("\\~", word[1:]) if word.startswith("~") else ("", word)
    return home + ('"' + re.sub(r'(["$`\\])', r"\\\1", quoted) + '"' if quoted else "")


def bash_words(words: Iterable[str]) -> str:
    """Quotes a command line."""
    return " ".join(map(bash_word, words))


def _escaped(letter: str) -> str:
    """Escapes a character for `$'...'`, byte by byte if it is not ASCII, because `\\u` depends on the locale."""
    if letter in "'\\":
        return f"\\{letter}"
    if letter.isascii() and letter.isprintable():
        return letter
    # Always three digits, because a digit may follow.
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(letter))
