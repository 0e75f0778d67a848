"""Shell commands that a task's text suggests: by rules, from nothing but the text."""

from __future__ import annotations

import re
import shlex

from commands.embedded.names import FILE, PATH, URL, quoted_in

_RUNNABLE = re.compile(
    r"^(?:awk|cat|cp|curl|cut|date|du|echo|find|git|grep|head|jq|ls|make|mkdir|python3?|sed|seq|sort|tr|wc)\b "
)
_SLUG = re.compile(r"^[\w.\-]+/[\w.\-]+$")
_FILTERS = (
    (("duplicate", "unique", "distinct"), "sort -u"),
    (("reverse",), "tac"),
    (("sort",), "sort"),
    (("uppercase", "upper-case", "upper case"), "tr a-z A-Z"),
    (("lowercase", "lower-case", "lower case"), "tr A-Z a-z"),
    (("even",), "awk '$1 % 2 == 0'"),
    (("count", "how many", "number of"), "wc -l"),
    (("sum", "total", "average"), "awk '{ s += $1 } END { print s }'"),
    (("column", "field"), "cut -d, -f1"),
    (("first",), "head -n 5"),
    (("last",), "tail -n 5"),
    (("replace", "substitut"), "sed 's/one/two/g'"),
    (("extract", "contain", "match", "filter", "only"), "grep ."),
)


def steps(task: str, topic: str) -> list[str]:
    """Return one to three commands that attempt a task."""
    urls = list(dict.fromkeys(URL.findall(task)))
    rest = URL.sub(" ", task)
    paths = list(dict.fromkeys(PATH.findall(rest))) or list(dict.fromkeys(FILE.findall(rest)))
    quoted = quoted_in(task)
    given = [text for text in quoted if _RUNNABLE.match(text)]
    if given:
        return given[:3]
    if urls or topic in {"registry", "web"}:
        return _fetching(urls or _addresses(task, topic, quoted), paths, quoted)
    if topic == "code":
        return _scripting(paths, quoted)
    if topic == "text":
        return _filtering(task, paths, quoted)
    return _arranging(task, paths, quoted)


def wandering(task: str) -> list[str]:
    """Return what someone tries who doesn't see how a task is done."""
    return ["ls -la"] if len(task) % 2 else ["pwd"]


def again(command: str) -> str:
    """Return a second try of a command that failed."""
    return f"set -x; {command}"


def _addresses(task: str, topic: str, quoted: list[str]) -> list[str]:
    """Return where the things that a task names are usually found."""
    names = [name for name in quoted if re.fullmatch(r"@?[\w./\-]+", name)] or ["search"]
    if topic == "registry":
        pypi = "pypi" in task.lower()
        return [
            f"https://pypi.org/pypi/{n}/json" if pypi else f"https://registry.npmjs.org/{n}/latest" for n in names[:3]
        ]
    base = "https://api.github.com"
    return [f"{base}/repos/{name}" if _SLUG.match(name) else f"{base}/users/{name}" for name in names[:2]]


def _fetching(urls: list[str], paths: list[str], quoted: list[str]) -> list[str]:
    keys = " ".join(shlex.quote(text) for text in quoted[:4])
    remark = f" # {keys}" if keys else ""
    if not paths:
        return [f"curl -s {url} | jq .{remark}" for url in urls[:3]]
    target = paths[-1]
    fetched = [f"curl -s {url} | jq -r . {'>' if not at else '>>'} {target}" for at, url in enumerate(urls[:3])]
    return [f"{' && '.join(fetched)} && cat {target}{remark}"]


def _scripting(paths: list[str], quoted: list[str]) -> list[str]:
    words = ", ".join(repr(text) for text in quoted[:6]) or "'done'"
    wanted = paths or ["result.txt"]
    script = next((path for path in wanted if path.endswith((".py", ".sh", ".c"))), "script.py")
    results = [path for path in wanted if path != script] or ["result.txt"]
    lines = [f"open({path!r}, 'w').write('\\n'.join([{words}]) + '\\n')" for path in results]
    body = "\n".join(lines)
    return [f"cat > {script} << 'EOF'\n{body}\nEOF", f"python3 {script} && cat {' '.join(results)}"]


def _filtering(task: str, paths: list[str], quoted: list[str]) -> list[str]:
    lowered = task.lower()
    program = next((program for words, program in _FILTERS if any(word in lowered for word in words)), "cat")
    sources, target = (paths[:-1] or paths[:1] or ["input.txt"]), (paths[-1] if paths else "output.txt")
    rows = "\\n".join(text.replace("'", "") for text in quoted[:6]) or "delta\\nalpha\\ncharlie\\nalpha\\nbravo"
    makes = " && ".join(f"printf '{rows}\\n' > {source}" for source in sources)
    if target in sources:
        return [f"{makes} && {program} {target}"]
    return [makes, f"cat {' '.join(sources)} | {program} > {target} && cat {target}"]


def _arranging(task: str, paths: list[str], quoted: list[str]) -> list[str]:
    lowered = task.lower()
    wanted = " ".join(shlex.quote(path) for path in paths) or "."
    if "archive" in lowered or "tar" in lowered:
        return [f"mkdir -p work && tar czf {paths[0] if paths else 'archive.tar.gz'} work {wanted} && ls -l {wanted}"]
    if "find" in lowered or "list" in lowered:
        name = f" -name {shlex.quote(quoted[0])}" if quoted else ""
        return [f"find {wanted}{name} | sort"]
    folders = [path for path in paths if path.endswith("/") or "." not in path.rsplit("/", 1)[-1]]
    files = [path for path in paths if path not in folders]
    makes = [f"mkdir -p {' '.join(folders)}"] if folders else []
    makes += [f"printf '%s\\n' {' '.join(map(shlex.quote, quoted)) or 'text'} > {path}" for path in files]
    return [" && ".join([*makes, f"ls -la {wanted}"])]
