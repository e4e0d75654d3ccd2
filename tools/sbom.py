"""Write the software bill of materials of a wheel as CycloneDX 1.6 JSON: `make wheel`.

It lists ontodex, the libraries of ontodex[all], their versions, licences and which needs which. The
same wheel and the same constraints give the same bytes.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from tools.dependencies import Dependency, find_dependencies

DEFAULT_EPOCH = 1580601600  # hatchling's, for wheels without SOURCE_DATE_EPOCH


def build_sbom(wheel: Path, dependencies: list[Dependency]) -> dict[str, Any]:
    """Return the bill of materials of a wheel."""
    name, version = wheel.name.split("-")[:2]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", DEFAULT_EPOCH))
    moment = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    own = {
        **_component(Dependency(name, version, "Apache-2.0", ()), "application"),
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    needs = {one.name: one.requires for one in dependencies}
    top = sorted(set(needs).difference(*needs.values()))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {"timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": own},
        "components": [_component(one, "library") for one in dependencies],
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [_reference(dependencies, one) for one in top]},
            *(
                {
                    "ref": _purl(one.name, one.version),
                    "dependsOn": [_reference(dependencies, needed) for needed in one.requires],
                }
                for one in dependencies
            ),
        ],
    }


def _component(one: Dependency, kind: str) -> dict[str, Any]:
    purl = _purl(one.name, one.version)
    return {
        "type": kind,
        "bom-ref": purl,
        "name": one.name,
        "version": one.version,
        "licenses": [{"expression": one.licence}],
        "purl": purl,
    }


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _reference(dependencies: list[Dependency], name: str) -> str:
    (version,) = (one.version for one in dependencies if one.name == name)
    return _purl(name, version)


def main(folder: Path) -> None:
    """Write a bill of materials beside each wheel of a folder."""
    dependencies = find_dependencies()
    for wheel in sorted(folder.glob("ontodex-*.whl")):
        name, version = wheel.name.split("-")[:2]
        target = folder / f"{name}-{version}.cdx.json"
        text = json.dumps(build_sbom(wheel, dependencies), indent=1) + "\n"
        target.write_text(text, encoding="utf-8")
        print(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
