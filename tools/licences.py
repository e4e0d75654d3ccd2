"""Check the licences of all dependencies: `make licences` writes docs/reference/licences.md.

ontodex is under Apache-2.0. Its wheel contains none of these libraries; pip installs them beside
it. So a library may have any permissive licence, or one whose conditions end at the library itself
(LGPL, MPL). GPL, AGPL, unknown and non-commercial licences are refused.
"""

from __future__ import annotations

import re
import sys

from tools.dependencies import ROOT, Dependency, find_dependencies

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "PSF-2.0",
    "Python-2.0",
    "Unlicense",
    "Zlib",
}
# Used as libraries that are installed separately and can be replaced.
AT_THE_LIBRARY = {"LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only", "LGPL-3.0-or-later"}
AT_THE_LIBRARY |= {"MPL-2.0"}
PAGE = ROOT / "docs" / "reference" / "licences.md"


def is_allowed(expression: str) -> bool:
    """Return whether an expression of SPDX allows the use beside Apache-2.0.

    All parts of an AND must be allowed, and one part of an OR.
    """
    text = re.sub(r"\s+WITH\s+[\w.-]+", "", expression).strip()
    text = text.removeprefix("(").removesuffix(")") if text.count("(") == 1 else text
    if " OR " in text:
        return any(map(is_allowed, text.split(" OR ")))
    if " AND " in text:
        return all(map(is_allowed, text.split(" AND ")))
    return text in PERMISSIVE | AT_THE_LIBRARY


def find_refused(dependencies: list[Dependency]) -> list[Dependency]:
    """Return the libraries whose licence is not allowed."""
    return [one for one in dependencies if not is_allowed(one.licence)]


def render(dependencies: list[Dependency]) -> str:
    """Return the page that lists the libraries."""
    head = (
        "# Licences of dependencies\n\nontodex is under Apache-2.0. `ontodex[all]` installs these "
        "libraries on Linux; the wheel contains none of them.\n`make licences` writes this page "
        "and fails if a licence is not on the list of allowed ones (`tools/licences.py`).\n\n"
        "| library | version | licence |\n|---|---|---|\n"
    )
    rows = (f"| {one.name} | {one.version} | {one.licence} |\n" for one in dependencies)
    return head + "".join(rows)


def main() -> int:
    """Write the page; return 1 if a licence is refused."""
    dependencies = find_dependencies()
    PAGE.write_text(render(dependencies), encoding="utf-8")
    refused = find_refused(dependencies)
    for one in refused:
        print(f"{one.name} {one.version}: the licence {one.licence!r} is not allowed")
    print(f"{len(dependencies)} libraries, {len(refused)} refused; written to {PAGE}")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
