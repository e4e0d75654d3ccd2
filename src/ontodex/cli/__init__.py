"""The commands: each is a thin call of the Python API.

    app         the program: shared options, output, errors as one sentence and exit code 2
    completion  what a shell completes: runs, concepts, systems
    corpora     demo, data, cache, ontology, convert, check, prepare
    index       index
    runs        train, evaluate, suggest, explain, compare, experiment, update, export, ...
    search      auto, tune, systems, settings
    service     serve, learn, keys

Nothing heavy is imported here, so that `ontodex --help` answers at once.
"""

from ontodex.cli import corpora, index, runs, search, service
from ontodex.cli.app import app, main

__all__ = ["app", "corpora", "index", "main", "runs", "search", "service"]
