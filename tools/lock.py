"""Write requirements.lock: the libraries of ontodex[all] with the hashes of all their files.

    make lock
    pip install --require-hashes --no-deps -r requirements.lock

The hashes are those that the package index states for each version in constraints.txt, for all
machines. torch is not in the file: its builds for CPU and CUDA come from other indexes, with other
files and further libraries. Install the build of your machine first.
"""

from __future__ import annotations

import html.parser
import os
import sys
import urllib.parse
import urllib.request

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from tools.dependencies import ROOT, Dependency, find_dependencies

LOCK = ROOT / "requirements.lock"
LEFT_OUT = ("torch",)
HEAD = """\
# Written by `make lock` from constraints.txt: ontodex[all] on Linux with Python 3.11.
#     pip install torch=={torch}    (the build of your machine, from its own index)
#     pip install --require-hashes --no-deps -r requirements.lock
"""


class _Links(html.parser.HTMLParser):
    """Collects the links of a page of a package index (PEP 503)."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def find_hashes(page: str, version: str) -> list[str]:
    """Return the SHA-256 of all files of a version, from a page of the index."""
    reader = _Links()
    reader.feed(page)
    found = set()
    for link in reader.links:
        address, _, fragment = link.partition("#sha256=")
        name = urllib.parse.unquote(address.rsplit("/", 1)[-1])
        if fragment and _version_of(name) == Version(version):
            found.add(fragment)
    return sorted(found)


def _version_of(name: str) -> Version | None:
    try:
        if name.endswith(".whl"):
            return parse_wheel_filename(name)[1]
        return parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def fetch_page(name: str) -> str:
    """Return the page of a library from the package index."""
    from pip._internal.models.index import PyPI  # the default of pip itself

    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    request = urllib.request.Request(f"{index}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def format_entry(dependency: Dependency, hashes: list[str]) -> str:
    """Return the lines of one library."""
    lines = [f"{dependency.name}=={dependency.version}"]
    return " \\\n".join([*lines, *(f"    --hash=sha256:{one}" for one in hashes)]) + "\n"


def main() -> int:
    """Write the file; return 1 if the index has no hash of a version."""
    dependencies = find_dependencies()
    versions = {one.name: one.version for one in dependencies}
    entries = []
    for one in dependencies:
        if one.name in LEFT_OUT:
            continue
        hashes = find_hashes(fetch_page(one.name), one.version)
        if not hashes:
            print(f"{one.name}=={one.version}: the index states no hash", file=sys.stderr)
            return 1
        entries.append(format_entry(one, hashes))
    text = HEAD.format(torch=versions.get("torch", "")) + "".join(entries)
    LOCK.write_text(text, encoding="utf-8")
    print(f"{len(entries)} libraries, {text.count('sha256:')} hashes written to {LOCK}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
